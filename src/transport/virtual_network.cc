#include "transport/virtual_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "transport/peer_status.h"

namespace nf {

class VirtualNetwork::Endpoint final : public Transport {
 public:
  Endpoint(VirtualNetwork& network, std::uint32_t rank) : network_(network), rank_(rank) {}
  ~Endpoint() override { network_.depart(rank_, peer_lost(rank_)); }

  std::string_view name() const override { return "virtual"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override {
    return static_cast<std::uint32_t>(network_.ranks_.size());
  }
  Duration now() const override { return network_.now(); }

  Status send(Transfer& transfer) override {
    NF_RETURN_IF_ERROR(check_start(transfer));
    if (peer(transfer).is_departed) return fail(peer(transfer).departure);
    network_.send(rank_, transfer);
    return {};
  }

  Status receive(Transfer& transfer) override {
    NF_RETURN_IF_ERROR(check_start(transfer));
    network_.receive(rank_, transfer);
    return peer(transfer).is_departed ? check_peers() : Status();
  }

  Status progress() override {
    NF_RETURN_IF_ERROR(failure_);
    if (self().busy_until > network_.now_) return {};
    PendingTransfers::CompletionResult result = self().pending.complete_finished();
    return result.problem.ok() ? check_peers() : fail(std::move(result.problem));
  }

  Status wait(Duration /*deadline*/) override {
    return {ErrorCode::kUnsupported,
            "a virtual network cannot block: call VirtualNetwork::step() and then progress() of "
            "the ranks in ready_ranks()"};
  }

  void abort(const Status& why) override {
    network_.depart(rank_, peer_aborted(rank_, why));
    failure_ = why;
  }

 private:
  Rank& self() { return network_.ranks_[rank_]; }
  Rank& peer(const Transfer& transfer) { return network_.ranks_[transfer.peer]; }

  Status check_start(const Transfer& transfer) {
    NF_RETURN_IF_ERROR(failure_);
    Status bad = check_peer(transfer.peer, rank_, ranks());
    return bad.ok() ? bad : fail(std::move(bad));
  }

  Status check_peers() {
    for (const PendingTransfer& pending : self().pending.all()) {
      const Rank& other = network_.ranks_[pending.peer];
      if (other.is_departed && pending.state == PendingTransfer::State::kWaiting &&
          pending.direction == Direction::kReceive &&
          network_.has_no_message_from(pending.peer, rank_)) {
        return fail(other.departure);
      }
    }
    return {};
  }

  Status fail(Status why) {
    static_cast<void>(self().pending.complete_finished());  // an earlier failure takes precedence
    self().pending.clear();
    failure_ = std::move(why);
    return failure_;
  }

  VirtualNetwork& network_;
  const std::uint32_t rank_;
  Status failure_;
};

VirtualNetwork::VirtualNetwork(std::uint32_t ranks, VirtualLinks links)
    : links_(links), ranks_(ranks) {}

VirtualNetwork::~VirtualNetwork() = default;

std::unique_ptr<Transport> VirtualNetwork::endpoint(std::uint32_t rank) {
  return std::make_unique<Endpoint>(*this, rank);
}

bool VirtualNetwork::step() {
  ready_ranks_.clear();
  while (!events_.empty() && (ready_ranks_.empty() || events_.front().time == now_)) {
    std::ranges::pop_heap(events_, later);
    const Event event = events_.back();
    events_.pop_back();
    now_ = event.time;
    handle(event);
  }
  return !ready_ranks_.empty();
}

void VirtualNetwork::busy(std::uint32_t rank, Duration duration) {
  ranks_[rank].busy_until = std::max(now_, ranks_[rank].busy_until) + duration;
  wake(rank);
}

bool VirtualNetwork::later(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
}

void VirtualNetwork::schedule(Duration time, Event::Kind kind, std::uint32_t index) {
  events_.push_back({.time = time, .sequence = sequence_++, .kind = kind, .index = index});
  std::ranges::push_heap(events_, later);
}

void VirtualNetwork::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kLeft: {
      const Message& message = messages_[event.index];
      PendingTransfer* const pending = ranks_[message.from].pending.find(message.send);
      if (pending == nullptr) break;
      pending->state = PendingTransfer::State::kFinished;
      pending->size = message.bytes.size();
      wake(message.from);
      break;
    }
    case Event::Kind::kHead: {
      const Message& message = messages_[event.index];
      Duration& in_free = ranks_[message.to].in_free;
      in_free = std::max(now_, in_free) + time_on_link(message.bytes.size());
      schedule(in_free, Event::Kind::kArrived, event.index);
      break;
    }
    case Event::Kind::kArrived: arrive(event.index); break;
    case Event::Kind::kWake:
      ranks_[event.index].has_wake = false;
      if (ranks_[event.index].busy_until > now_) {
        wake(event.index);
      } else if (ranks_[event.index].departure.ok()) {
        ready_ranks_.push_back(event.index);
      }
      break;
    case Event::Kind::kDeparted:
      ranks_[event.index].is_departed = true;
      for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto pending = ranks_[rank].pending.all();
        if (std::ranges::find(pending, event.index, &PendingTransfer::peer) != pending.end())
          wake(rank);
      }
      break;
  }
}

void VirtualNetwork::wake(std::uint32_t rank) {
  if (ranks_[rank].has_wake) return;
  ranks_[rank].has_wake = true;
  schedule(std::max(now_, ranks_[rank].busy_until), Event::Kind::kWake, rank);
}

Duration VirtualNetwork::time_on_link(std::size_t size) const {
  return Duration(std::llround(static_cast<double>(size) / links_.bytes_per_second * 1e9));
}

void VirtualNetwork::send(std::uint32_t rank, Transfer& transfer) {
  Rank& sender = ranks_[rank];
  sender.pending.add(transfer, Direction::kSend).state = PendingTransfer::State::kMoving;
  if (free_messages_.empty()) {
    free_messages_.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const std::uint32_t index = free_messages_.back();
  free_messages_.pop_back();
  Message& message = messages_[index];
  message.from = rank;
  message.to = transfer.peer;
  message.send = &transfer;
  message.bytes.assign(transfer.bytes.begin(), transfer.bytes.end());
  message.is_in_flight = true;
  const Duration leaves = std::max({now_, sender.busy_until, sender.out_free});
  sender.out_free = leaves + time_on_link(transfer.bytes.size());
  schedule(sender.out_free, Event::Kind::kLeft, index);
  schedule(leaves + links_.latency, Event::Kind::kHead, index);
}

void VirtualNetwork::receive(std::uint32_t rank, Transfer& transfer) {
  Rank& receiver = ranks_[rank];
  PendingTransfer& pending = receiver.pending.add(transfer, Direction::kReceive);
  const auto it = std::ranges::find(receiver.arrived, transfer.peer,
                                    [this](std::uint32_t index) { return messages_[index].from; });
  if (it == receiver.arrived.end()) return;
  const std::uint32_t index = *it;
  receiver.arrived.erase(it);
  deliver(pending, index);
}

void VirtualNetwork::arrive(std::uint32_t index) {
  Message& message = messages_[index];
  message.is_in_flight = false;
  Rank& receiver = ranks_[message.to];
  if (!receiver.departure.ok()) {
    free_messages_.push_back(index);
    return;
  }
  PendingTransfer* const pending =
      receiver.pending.first_waiting(message.from, Direction::kReceive);
  if (pending == nullptr) {
    receiver.arrived.push_back(index);
  } else {
    deliver(*pending, index);
  }
}

void VirtualNetwork::deliver(PendingTransfer& receive, std::uint32_t index) {
  const Message& message = messages_[index];
  receive.state = PendingTransfer::State::kFinished;
  receive.size = message.bytes.size();
  if (message.bytes.size() <= receive.bytes.size()) {
    std::ranges::copy(message.bytes, receive.bytes.begin());
  }
  free_messages_.push_back(index);
  wake(message.to);
}

void VirtualNetwork::depart(std::uint32_t rank, Status why) {
  Rank& leaver = ranks_[rank];
  leaver.pending.clear();
  free_messages_.insert(free_messages_.end(), leaver.arrived.begin(), leaver.arrived.end());
  leaver.arrived.clear();
  if (!leaver.departure.ok()) return;
  leaver.departure = std::move(why);
  // Peers learn of it as they would receive an empty message.
  schedule(std::max({now_, leaver.busy_until, leaver.out_free}) + links_.latency,
           Event::Kind::kDeparted, rank);
}

bool VirtualNetwork::has_no_message_from(std::uint32_t peer, std::uint32_t rank) const {
  return std::ranges::none_of(messages_, [&](const Message& message) {
    return message.is_in_flight && message.from == peer && message.to == rank;
  });
}

}  // namespace nf
