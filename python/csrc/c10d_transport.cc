#include "c10d_transport.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "c10d_work.h"
#include "transport/peer_status.h"

namespace nf::torch_front {
namespace {

constexpr int kMessageTag = 0x6e66;  // one for all messages: Gloo keeps the order of equal tags

// A turn of the threads that wait for transfers. Turns without a completed transfer get longer.
constexpr Duration kShortestTurn = std::chrono::microseconds(250);
constexpr Duration kLongestTurn = std::chrono::milliseconds(8);

}  // namespace

C10dTransport::C10dTransport(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(std::move(group)),
      backend_(group_->getBackend(c10::DeviceType::CPU)),
      rank_(static_cast<std::uint32_t>(backend_->getRank())),
      ranks_(static_cast<std::uint32_t>(backend_->getSize())),
      events_(std::make_unique<PeerEvents>()),
      waiters_(std::make_unique<C10dWaiters>(*events_)),
      watch_(*backend_, *events_) {}

void C10dTransport::close() {
  waiters_.reset();
  watch_.stop();
}

Status C10dTransport::start(Transfer& transfer, Direction direction) {
  NF_RETURN_IF_ERROR(failure_);
  if (Status bad = check_peer(transfer.peer, rank_, ranks_); !bad.ok()) return fail(bad);
  transfer.size = transfer.bytes.size();  // both ranks know the size; c10d does not report it
  transfer.is_done = false;
  pending_.push_back({&transfer, transfer.peer});
  const auto peer = static_cast<int>(transfer.peer);
  std::vector<at::Tensor> tensors = tensor_over(transfer.bytes);
  try {
    waiters_->add(direction,
                  direction == Direction::kSend ? backend_->send(tensors, peer, kMessageTag)
                                                : backend_->recv(tensors, peer, kMessageTag),
                  transfer);
  } catch (const std::exception& error) {
    events_->add_failed(transfer.peer, first_line(error.what()));
  }
  return {};
}

std::size_t C10dTransport::take_completed() {
  const std::size_t completed = events_->done().size();
  for (Transfer* transfer : events_->done()) {
    transfer->is_done = true;
    std::erase_if(pending_, [&](const PendingTransfer& own) { return own.transfer == transfer; });
  }
  events_->done().clear();
  if (completed > 0) turn_ = kShortestTurn;
  return completed;
}

Duration C10dTransport::take_turns() {
  if (!waiters_->is_crowded()) return turn_end_ = Duration::max();
  const Duration moment = now();
  if (turn_end_ == Duration::max()) {
    turn_ = kShortestTurn;
  } else if (moment >= turn_end_) {
    waiters_->rotate();
    turn_ = std::min(2 * turn_, kLongestTurn);
  } else {
    return turn_end_;
  }
  return turn_end_ = moment + turn_;
}

Status C10dTransport::progress() {
  NF_RETURN_IF_ERROR(failure_);
  PeerEvents::Verdict verdict;
  {
    const std::lock_guard lock(events_->mutex());
    if (take_completed() > 0) return {};
    verdict = events_->verdict(pending_);
  }
  take_turns();
  return now() < verdict.moment ? Status() : fail(std::move(verdict.status));
}

Status C10dTransport::wait(Duration deadline) {
  NF_RETURN_IF_ERROR(failure_);
  std::unique_lock lock(events_->mutex());
  for (;;) {
    if (take_completed() > 0) return {};
    const PeerEvents::Verdict verdict = events_->verdict(pending_);
    const Duration moment = now();
    if (moment >= std::min(deadline, verdict.moment)) {
      const Status why = verdict.status.ok() ? overdue() : verdict.status;
      lock.unlock();
      return why.code() == ErrorCode::kDeadlineExceeded ? why : fail(why);
    }
    events_->wait(lock, std::min({deadline, verdict.moment, take_turns()}));
  }
}

Status C10dTransport::overdue() const {
  std::vector<std::uint32_t> peers;
  for (const PendingTransfer& own : pending_) {
    if (const auto* departure = events_->departure_of(own.peer)) return departure->status;
    peers.push_back(own.peer);
  }
  return transfer_timed_out(rank_, peers);
}

Status C10dTransport::peers(std::uint64_t step, Duration timeout) const {
  return events_->first_missed(step, timeout);
}

// Cancels pending transfers, so that Gloo does not write to freed memory.
Status C10dTransport::fail(Status why) {
  failure_ = std::move(why);
  waiters_.reset();
  pending_.clear();
  return failure_;
}

void C10dTransport::abort(const Status& why) {
  if (!std::exchange(has_notified_, true)) {
    // Leaked: Gloo may read it until the process ends, and no rank may wait for an unresponsive
    // peer.
    static_cast<void>(new C10dNotices(*backend_, notice_of(peer_aborted(rank_, why).message())));
  }
  static_cast<void>(fail(why));
}

void C10dTransport::notify_shutdown(std::uint64_t steps) {
  if (std::exchange(has_notified_, true)) return;
  shutdown_notices_ = std::make_unique<C10dNotices>(*backend_, notice_of(steps));
}

}  // namespace nf::torch_front
