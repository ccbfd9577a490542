#include "peer_watch.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "c10d_work.h"

namespace nf::torch_front {
namespace {

// How long a failed rank waits for the other ranks to acknowledge the step.
constexpr std::chrono::milliseconds kAcknowledgeWait{1000};

}  // namespace

PeerWatch::PeerWatch(const JobContext& context, const C10dTransport& transport, Duration timeout)
    : failures_(context.store, context.prefix), transport_(transport), timeout_(timeout) {
  // Creates the key, so that ranks can read those of all ranks at once.
  failures_.clear_acknowledgement(transport.rank());
}

Status PeerWatch::check_peers(std::uint64_t step, Duration waited) {
  if (acknowledged_ <= step && waited > timeout_ / 2) {
    failures_.acknowledge(transport_.rank(), step);
    acknowledged_ = step + 1;
  }
  NF_RETURN_IF_ERROR(transport_.peers(step));
  if (!failures_.read().empty()) return {ErrorCode::kAborted, "another rank failed"};
  if (waited < timeout_) return {};
  const double seconds = std::chrono::duration<double>(timeout_).count();
  return {ErrorCode::kDeadlineExceeded,
          c10::str("waited ", seconds, " s", describe_missing(step, kAcknowledgeWait))};
}

void PeerWatch::step_ended(std::uint64_t step) {
  if (has_acknowledged(step)) failures_.clear_acknowledgement(transport_.rank());
}

// All live ranks fail at about the same time and acknowledge the step. All of them waited for the
// rank that does not.
Status PeerWatch::report_unresponsive_peers(std::uint64_t step, const Status& why) {
  if (has_failed()) return why;  // already reported
  failures_.acknowledge(transport_.rank(), step);
  const bool is_waiting =
      why.code() == ErrorCode::kDeadlineExceeded || why.code() == ErrorCode::kAborted;
  if (!is_waiting || transport_.peers(step).code() == ErrorCode::kPeerLost) return why;
  const Duration begin = transport_.now();
  std::string missing;
  do {
    missing = describe_missing(step, Duration::zero());
    if (missing.empty()) return why;
    std::this_thread::sleep_for(kAcknowledgeWait / 10);
  } while (transport_.now() - begin < kAcknowledgeWait);
  // If the store does not answer, notices of other ranks contain the rank that they waited for.
  const Status notice = transport_.peers(step);
  return {why.code(), c10::str(why.message(), "; all wait", missing,
                               notice.ok() ? std::string() : c10::str("; ", notice.message()))};
}

Status PeerWatch::engine_failure(std::uint64_t step, const std::string& message, Duration timeout) {
  NF_RETURN_IF_ERROR(transport_.peers(step, timeout));
  const std::string missing =
      describe_missing(step, has_failed() ? Duration::zero() : kAcknowledgeWait);
  return {ErrorCode::kPeerLost, c10::str("timed out waiting", missing, ": ", first_line(message))};
}

// " for rank 2": the ranks that have not acknowledged the step. If there are several, waits up to
// `timeout`, since all but one may be about to acknowledge the step.
std::string PeerWatch::describe_missing(std::uint64_t step, Duration timeout) {
  const Duration begin = transport_.now();
  while (true) {
    const std::optional<std::vector<std::uint32_t>> missing =
        failures_.missing(transport_.ranks(), step);
    if (!missing) return "; the job's store does not answer, and its host may have stopped";
    if (missing->empty() || std::ranges::count(*missing, transport_.rank()) > 0) return {};
    if (missing->size() == 1) return c10::str(" for rank ", missing->front());
    if (transport_.now() - begin >= timeout) {
      return c10::str(" for ranks ", c10::Join(", ", *missing));
    }
    std::this_thread::sleep_for(kAcknowledgeWait / 10);
  }
}

std::string PeerWatch::describe(const std::string& where, const Status& why) {
  const std::string message = c10::str(where, ", rank ", transport_.rank(), ": ", why.message());
  // The first report is closest to the cause.
  const std::string first = failures_.report(message);
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) {
    failure_ = first == message ? message : c10::str(message, "; first seen at ", first);
  }
  return failure_;
}

bool PeerWatch::has_failed() {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

}  // namespace nf::torch_front
