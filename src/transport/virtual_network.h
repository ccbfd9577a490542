// A discrete-event simulation of thousands of ranks in one thread, over links of a given speed.
//
// Every rank has an outgoing and an incoming link. A message leaves when its sender is not busy and
// the outgoing link is free, and occupies that link for size / speed. Its head arrives `latency`
// later and enters the receiver's incoming link, which serves messages in the order of their heads;
// without contention a message takes latency + size / speed (cut-through, not store-and-forward). A
// send is done when its last byte has left, with or without a matching receive: its bytes are
// copied when it starts. The simulation is deterministic: simultaneous events are handled in the
// order in which they were scheduled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "neuron_fabric/transport.h"
#include "transport/pending_transfers.h"

namespace nf {

struct VirtualLinks {
  double bytes_per_second = 1e9;
  Duration latency{0};
};

// Driven by a loop: start the work of every rank, then, while step() returns true, continue each
// of ready_ranks(). Endpoints must not outlive the network.
class VirtualNetwork {
 public:
  // Preconditions: ranks >= 1, bytes_per_second > 0.
  VirtualNetwork(std::uint32_t ranks, VirtualLinks links);
  ~VirtualNetwork();
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  // As InprocNetwork::endpoint(), except that wait() fails with kUnsupported and now() is the
  // network's clock. Messages that a rank sent before its endpoint was destroyed still arrive.
  std::unique_ptr<Transport> endpoint(std::uint32_t rank);

  Duration now() const { return now_; }

  // Advances the clock to the next time at which some rank can make progress. Returns false if no
  // event is left: all work is done, or the ranks are deadlocked.
  bool step();
  // The ranks that can make progress now, each once.
  std::span<const std::uint32_t> ready_ranks() const { return ready_ranks_; }

  // Makes `rank` compute for `duration`, from now or from the end of its current computation. Until
  // then its progress() completes nothing and its sends do not leave; it is one of ready_ranks() at
  // the end.
  void busy(std::uint32_t rank, Duration duration);

 private:
  class Endpoint;

  struct Event {
    enum class Kind : std::uint8_t {
      kLeft,      // the last byte of a message has left
      kHead,      // the head of a message is at its receiver
      kArrived,   // the last byte of a message has arrived
      kWake,      // a rank can make progress
      kDeparted,  // peers learn that a rank is gone
    };
    Duration time{0};
    std::uint64_t sequence = 0;
    Kind kind = Kind::kWake;
    std::uint32_t index = 0;  // of a message or a rank
  };

  // A slot that is reused.
  struct Message {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    const Transfer* send = nullptr;
    std::vector<std::byte> bytes;
    bool is_in_flight = false;
  };

  struct Rank {
    PendingTransfers pending;
    std::vector<std::uint32_t> arrived;  // messages without a receive, in order of arrival
    Duration busy_until{0};
    Duration out_free{0};
    Duration in_free{0};
    Status departure;          // the error that peers get; ok while the rank is connected
    bool is_departed = false;  // and peers know it
    bool has_wake = false;     // a kWake event is scheduled
  };

  static bool later(const Event& a, const Event& b);
  void schedule(Duration time, Event::Kind kind, std::uint32_t index);
  void handle(const Event& event);
  void wake(std::uint32_t rank);
  Duration time_on_link(std::size_t size) const;

  void send(std::uint32_t rank, Transfer& transfer);
  void receive(std::uint32_t rank, Transfer& transfer);
  void deliver(PendingTransfer& receive, std::uint32_t message);
  void arrive(std::uint32_t message);
  void depart(std::uint32_t rank, Status why);
  // If true, a receive from `peer` can never complete.
  bool has_no_message_from(std::uint32_t peer, std::uint32_t rank) const;

  const VirtualLinks links_;
  Duration now_{0};
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;  // a heap, the next event first
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> ready_ranks_;
};

}  // namespace nf
