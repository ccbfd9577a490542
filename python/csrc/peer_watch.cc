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

// How long a rank that failed waits for the others to say that they did, too.
constexpr std::chrono::milliseconds kSigning{1000};

}  // namespace

PeerWatch::PeerWatch(const JobContext& context, const C10dTransport& transport, Duration timeout)
    : failures_(context.store, context.prefix), transport_(transport), timeout_(timeout) {}

Status PeerWatch::check_peers(std::uint64_t step, Duration waited) {
  if (signed_ <= step && waited > timeout_ / 2) {
    failures_.sign(transport_.rank(), step);
    signed_ = step + 1;
  }
  NF_RETURN_IF_ERROR(transport_.peers(step));
  if (!failures_.read().empty()) return {ErrorCode::kAborted, "another rank gave up"};
  if (waited < timeout_) return {};
  const double seconds = std::chrono::duration<double>(timeout_).count();
  return {ErrorCode::kDeadlineExceeded,
          c10::str("waited ", seconds, " s", whom_it_waits_for(step, kSigning))};
}

void PeerWatch::step_ended(std::uint64_t step) {
  if (has_signed(step)) failures_.take_back(transport_.rank());
}

// All who live fail at about the same time, and sign: whoever does not is what all of them waited
// for.
Status PeerWatch::report_unresponsive_peers(std::uint64_t step, const Status& why) {
  if (has_failed()) return why;  // it has been told
  failures_.sign(transport_.rank(), step);
  const bool is_waiting =
      why.code() == ErrorCode::kDeadlineExceeded || why.code() == ErrorCode::kAborted;
  if (!is_waiting || transport_.peers(step).code() == ErrorCode::kPeerLost) return why;
  const Duration begin = transport_.now();
  std::string silent;
  do {
    silent = whom_it_waits_for(step, Duration::zero());
    if (silent.empty()) return why;
    std::this_thread::sleep_for(kSigning / 10);
  } while (transport_.now() - begin < kSigning);
  // Where the store is what is silent, others have told whom they waited for.
  const Status told = transport_.peers(step);
  return {why.code(), c10::str(why.message(), "; all wait", silent,
                               told.ok() ? std::string() : c10::str("; ", told.message()))};
}

Status PeerWatch::engine_failure(std::uint64_t step, const std::string& words, Duration patience) {
  NF_RETURN_IF_ERROR(transport_.peers(step, patience));
  const std::string whom = whom_it_waits_for(step, has_failed() ? Duration::zero() : kSigning);
  return {ErrorCode::kPeerLost, c10::str("waited in vain", whom, ": ", first_line(words))};
}

// Ranks that wait for long sign in the store: those that have not are waited for. Of several, all
// but one may be about to sign.
std::string PeerWatch::whom_it_waits_for(std::uint64_t step, Duration patience) {
  const Duration begin = transport_.now();
  while (true) {
    const std::optional<std::vector<std::uint32_t>> missing =
        failures_.missing(transport_.ranks(), step);
    if (!missing) return "; the job's store does not answer, and its host may have stopped";
    if (missing->empty() || std::ranges::count(*missing, transport_.rank()) > 0) return {};
    if (missing->size() == 1) return c10::str(" for rank ", missing->front());
    if (transport_.now() - begin >= patience) {
      return c10::str(" for ranks ", c10::Join(", ", *missing));
    }
    std::this_thread::sleep_for(kSigning / 10);
  }
}

std::string PeerWatch::describe(const std::string& where, const Status& why) {
  const std::string message = c10::str(where, ", rank ", transport_.rank(), ": ", why.message());
  // The first to see it is nearest to the cause.
  const std::string first = failures_.report(message);
  const std::lock_guard lock(mutex_);
  if (told_.empty()) {
    told_ = first == message ? message : c10::str(message, "; first seen at ", first);
  }
  return told_;
}

bool PeerWatch::has_failed() {
  const std::lock_guard lock(mutex_);
  return !told_.empty();
}

}  // namespace nf::torch_front
