#include "transport/faulty.h"

#include <algorithm>
#include <utility>

namespace nf {

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> wrapped, FaultPlan plan)
    : name_(wrapped->name()),
      rank_(wrapped->rank()),
      ranks_(wrapped->ranks()),
      plan_(std::move(plan)),
      wrapped_(std::move(wrapped)) {}

Status FaultyTransport::send(Transfer& transfer) {
  NF_RETURN_IF_ERROR(count_start());
  const std::optional<Fault> fault = strike();
  Duration leaves{0};  // not before what was sent to that peer earlier
  for (const Altered& earlier : altered_) {
    if (!earlier.has_left && earlier.actual.peer == transfer.peer) leaves = earlier.leaves;
  }
  if (!fault && leaves == Duration(0)) return keep(wrapped_->send(transfer));
  transfer.is_done = false;
  Altered& altered = altered_.emplace_back();
  altered.original = &transfer;
  altered.actual = {.peer = transfer.peer, .bytes = transfer.bytes};
  altered.leaves = leaves;
  if (fault) alter(altered, *fault);
  return send_due();
}

Status FaultyTransport::receive(Transfer& transfer) {
  NF_RETURN_IF_ERROR(count_start());
  return keep(wrapped_->receive(transfer));
}

Status FaultyTransport::progress() {
  NF_RETURN_IF_ERROR(failure_);
  NF_RETURN_IF_ERROR(send_due());
  Status status = wrapped_->progress();
  mark_done();
  return keep(std::move(status));
}

Status FaultyTransport::wait(Duration deadline) {
  NF_RETURN_IF_ERROR(failure_);
  while (true) {
    NF_RETURN_IF_ERROR(send_due());
    if (mark_done()) return keep(wrapped_->progress());
    Duration until = deadline;
    for (const Altered& altered : altered_) {
      if (!altered.has_left) until = std::min(until, altered.leaves);
    }
    Status status = wrapped_->wait(until);
    mark_done();
    if (until == deadline || status.code() != ErrorCode::kDeadlineExceeded) {
      return keep(std::move(status));
    }
  }
}

void FaultyTransport::abort(const Status& why) {
  if (wrapped_ == nullptr) return;
  wrapped_->abort(why);
  failure_ = why;
}

Status FaultyTransport::count_start() {
  NF_RETURN_IF_ERROR(failure_);
  const bool dies = std::ranges::any_of(plan_, [this](const Fault& fault) {
    return fault.kind == Fault::Kind::kDie && fault.operation <= starts_;
  });
  if (dies) die();
  ++starts_;
  return failure_;
}

void FaultyTransport::die() {
  died_at_ = now();
  wrapped_.reset();
  failure_ = {ErrorCode::kPeerLost, "this rank has died, as planned"};
}

std::optional<Fault> FaultyTransport::strike() {
  const auto it = std::ranges::find_if(plan_, [this](const Fault& fault) {
    return fault.kind != Fault::Kind::kDie && fault.operation < starts_;
  });
  if (it == plan_.end()) return std::nullopt;
  const Fault fault = *it;
  plan_.erase(it);
  return fault;
}

void FaultyTransport::alter(Altered& altered, const Fault& fault) {
  std::span<std::byte>& bytes = altered.actual.bytes;
  switch (fault.kind) {
    case Fault::Kind::kDelay: altered.leaves = std::max(altered.leaves, now() + fault.delay); break;
    case Fault::Kind::kDrop:
      altered.has_left = true;
      altered.actual.is_done = true;
      break;
    case Fault::Kind::kCorrupt:
      if (fault.byte >= bytes.size()) break;
      altered.bytes.assign(bytes.begin(), bytes.end());
      altered.bytes[fault.byte] ^= std::byte{1};
      bytes = altered.bytes;
      break;
    case Fault::Kind::kTruncate: bytes = bytes.first(std::min(fault.byte, bytes.size())); break;
    case Fault::Kind::kDie: break;
  }
}

Status FaultyTransport::send_due() {
  const Duration moment = now();  // one for all, lest a later message overtake an earlier one
  for (Altered& altered : altered_) {
    if (altered.has_left || altered.leaves > moment) continue;
    altered.has_left = true;
    NF_RETURN_IF_ERROR(keep(wrapped_->send(altered.actual)));
  }
  return {};
}

bool FaultyTransport::mark_done() {
  const auto marked = altered_.remove_if([](const Altered& altered) {
    if (!altered.actual.is_done) return false;
    altered.original->is_done = true;
    return true;
  });
  return marked > 0;
}

Status FaultyTransport::keep(Status status) {
  if (status.code() != ErrorCode::kDeadlineExceeded) failure_ = status;
  return status;
}

}  // namespace nf
