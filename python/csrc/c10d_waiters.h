// The threads that wait for the pending transfers of a transport.
//
// Gloo completes the transfers of a channel, one peer and one direction, in the order in which they
// started. A transfer can be waited for but not polled, so every busy channel needs a thread that
// waits for its first transfer. The number of threads does not grow with the number of ranks: if
// there are more busy channels than threads, the threads take turns.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "neuron_fabric/transport.h"
#include "peer_events.h"

namespace nf::torch_front {

enum class Direction : std::uint8_t { kSend, kReceive };

class C10dWaiters {
 public:
  // Enough for all channels of up to 9 ranks.
  static constexpr std::size_t kMaxThreads = 16;

  explicit C10dWaiters(PeerEvents& events) : events_(events) {}
  // Cancels pending transfers. Gloo does not access their bytes afterwards.
  ~C10dWaiters();

  // Reports the end of the transfer as an event of transfer.peer.
  void add(Direction direction, c10::intrusive_ptr<c10d::Work> work, Transfer& transfer);

  // Whether a busy channel has no thread, and none is idle.
  bool is_crowded() const;
  // Starts the next turn: threads that have waited since the last call move to the channels without
  // a thread, if there are any.
  void rotate();

 private:
  struct Item {
    c10::intrusive_ptr<c10d::Work> work;
    Transfer* transfer = nullptr;
  };

  struct Channel {
    std::uint32_t peer = 0;
    std::deque<Item> items;    // a thread waits for the first
    bool is_attended = false;  // by a thread, or in unattended_
  };

  struct Waiter {
    std::thread thread;
    c10d::Work* work = nullptr;  // that the thread waits for
    std::uint64_t turn = 0;      // in which the wait began
  };

  void run(Waiter& self);
  void attend(Channel& channel, Waiter& self, std::unique_lock<std::mutex>& lock);
  // Waits for the transfer. Returns false if the wait was interrupted.
  bool finish(std::uint32_t peer, const Item& item);

  PeerEvents& events_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, Direction>, Channel> channels_;
  std::deque<Channel*> unattended_;  // busy, without a thread
  std::array<Waiter, kMaxThreads> waiters_;
  std::size_t started_ = 0;  // threads
  std::size_t idle_ = 0;     // threads
  std::uint64_t turn_ = 0;
  bool is_closing_ = false;
};

}  // namespace nf::torch_front
