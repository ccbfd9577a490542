// Thousands of ranks in one thread, over links of a given speed, by a clock that jumps from one
// event to the next.
//
// Every rank has a link out and a link in. A message leaves when its sender is not busy and its
// link out is free, and takes that link for size / speed. Its head comes `latency` later and enters
// the receiver's link in, which serves messages in the order of their heads; so a message that
// nothing hinders takes latency + size / speed (cut-through, not store-and-forward). A send is done
// when its last byte has left, whether or not there is a receive: its bytes were copied at its
// start. Everything is deterministic: what happens at the same time happens in the order of its
// causes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "neuron_fabric/transport.h"
#include "transport/posts.h"

namespace nf {

struct VirtualLinks {
  double bytes_per_second = 1e9;
  Duration latency{0};
};

// A loop drives it: start every rank's work, then, while step(), let each rank of awake() go on.
// Ends must not outlive it.
class VirtualNetwork {
 public:
  // Preconditions: ranks >= 1, bytes_per_second > 0.
  VirtualNetwork(std::uint32_t ranks, VirtualLinks links);
  ~VirtualNetwork();
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  // As of InprocNetwork, but that wait() fails with kUnsupported and now() is that of the network.
  // What a rank had sent before it went still comes.
  std::unique_ptr<Transport> endpoint(std::uint32_t rank);

  Duration now() const { return now_; }

  // Moves the clock to the next time at which something has come to its end for some rank. False
  // where nothing is under way any more: all work is done, or each rank waits for another.
  bool step();
  // The ranks for which it was, each once. Their progress() has news.
  std::span<const std::uint32_t> awake() const { return awake_; }

  // `rank` computes for so long, from now or from the end of what it computes already. Until then
  // its progress() marks nothing and what it sends does not leave; step() names it at the end.
  void busy(std::uint32_t rank, Duration duration);

 private:
  class Endpoint;

  struct Event {
    enum class Kind : std::uint8_t {
      kLeft,      // the last byte of a message
      kHead,      // of a message is at its receiver
      kArrived,   // the last byte of a message
      kWake,      // a rank has news
      kDeparted,  // peers know that a rank is gone
    };
    Duration time{0};
    std::uint64_t sequence = 0;
    Kind kind = Kind::kWake;
    std::uint32_t index = 0;  // of a message or a rank
  };

  // A slot, used again and again.
  struct Message {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    const Transfer* send = nullptr;
    std::vector<std::byte> bytes;
    bool is_under_way = false;
  };

  struct Rank {
    Posts posts;
    std::vector<std::uint32_t> arrived;  // messages without a receive, in their order
    Duration busy_until{0};
    Duration out_free{0};
    Duration in_free{0};
    Status departure;          // why its peers wait in vain
    bool is_departed = false;  // and they know it
    bool has_wake = false;     // an event is on its way
  };

  static bool later(const Event& a, const Event& b);
  void schedule(Duration time, Event::Kind kind, std::uint32_t index);
  void handle(const Event& event);
  void wake(std::uint32_t rank);
  Duration time_on_link(std::size_t size) const;

  void send(std::uint32_t rank, Transfer& transfer);
  void receive(std::uint32_t rank, Transfer& transfer);
  void deliver(Post& receive, std::uint32_t message);
  void arrive(std::uint32_t message);
  void depart(std::uint32_t rank, Status why);
  // A receive from it would never be done.
  bool has_nothing_from(std::uint32_t peer, std::uint32_t rank) const;

  const VirtualLinks links_;
  Duration now_{0};
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;  // a heap, the next one first
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> awake_;
};

}  // namespace nf
