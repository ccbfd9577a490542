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
  NF_RETURN_IF_ERROR(count_operation());
  const std::optional<Fault> fault = take_fault();
  Duration leaves{0};  // not before earlier messages to that peer
  for (const AlteredSend& earlier : altered_) {
    if (!earlier.has_left && earlier.actual.peer == transfer.peer) leaves = earlier.leaves;
  }
  if (!fault && leaves == Duration(0)) return record_failure(wrapped_->send(transfer));
  transfer.is_done = false;
  AlteredSend& altered = altered_.emplace_back();
  altered.original = &transfer;
  altered.actual = {.peer = transfer.peer, .bytes = transfer.bytes};
  altered.leaves = leaves;
  if (fault) alter(altered, *fault);
  return send_due();
}

Status FaultyTransport::receive(Transfer& transfer) {
  NF_RETURN_IF_ERROR(count_operation());
  return record_failure(wrapped_->receive(transfer));
}

Status FaultyTransport::progress() {
  NF_RETURN_IF_ERROR(failure_);
  NF_RETURN_IF_ERROR(send_due());
  Status status = wrapped_->progress();
  mark_done();
  return record_failure(std::move(status));
}

Status FaultyTransport::wait(Duration deadline) {
  NF_RETURN_IF_ERROR(failure_);
  while (true) {
    NF_RETURN_IF_ERROR(send_due());
    if (mark_done()) return record_failure(wrapped_->progress());
    Duration until = deadline;
    for (const AlteredSend& altered : altered_) {
      if (!altered.has_left) until = std::min(until, altered.leaves);
    }
    Status status = wrapped_->wait(until);
    mark_done();
    if (until == deadline || status.code() != ErrorCode::kDeadlineExceeded) {
      return record_failure(std::move(status));
    }
  }
}

void FaultyTransport::abort(const Status& why) {
  if (wrapped_ == nullptr) return;
  wrapped_->abort(why);
  failure_ = why;
}

Status FaultyTransport::count_operation() {
  NF_RETURN_IF_ERROR(failure_);
  const bool dies = std::ranges::any_of(plan_, [this](const Fault& fault) {
    return fault.kind == Fault::Kind::kDie && fault.operation <= operations_;
  });
  if (dies) kill();
  ++operations_;
  return failure_;
}

void FaultyTransport::kill() {
  died_at_ = now();
  wrapped_.reset();
  failure_ = {ErrorCode::kPeerLost, "this rank has died, as the fault plan requires"};
}

std::optional<Fault> FaultyTransport::take_fault() {
  const auto it = std::ranges::find_if(plan_, [this](const Fault& fault) {
    return fault.kind != Fault::Kind::kDie && fault.operation < operations_;
  });
  if (it == plan_.end()) return std::nullopt;
  const Fault fault = *it;
  plan_.erase(it);
  return fault;
}

void FaultyTransport::alter(AlteredSend& altered, const Fault& fault) {
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
  const Duration moment = now();  // one time for all, so that no message overtakes an earlier one
  for (AlteredSend& altered : altered_) {
    if (altered.has_left || altered.leaves > moment) continue;
    altered.has_left = true;
    NF_RETURN_IF_ERROR(record_failure(wrapped_->send(altered.actual)));
  }
  return {};
}

bool FaultyTransport::mark_done() {
  const auto marked = altered_.remove_if([](const AlteredSend& altered) {
    if (!altered.actual.is_done) return false;
    altered.original->is_done = true;
    return true;
  });
  return marked > 0;
}

Status FaultyTransport::record_failure(Status status) {
  if (status.code() != ErrorCode::kDeadlineExceeded) failure_ = status;
  return status;
}

}  // namespace nf
