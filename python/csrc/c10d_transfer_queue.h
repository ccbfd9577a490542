// A thread that waits for the transfers with one peer in one direction, in order.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "neuron_fabric/transport.h"
#include "peer_events.h"

namespace nf::torch_front {

// Gloo completes the transfers of one queue in the order in which they started.
class C10dTransferQueue {
 public:
  C10dTransferQueue(PeerEvents& events, std::uint32_t peer);
  // Cancels pending transfers.
  ~C10dTransferQueue();

  void add(c10::intrusive_ptr<c10d::Work> work, Transfer& transfer);

 private:
  struct Item {
    c10::intrusive_ptr<c10d::Work> work;
    Transfer* transfer = nullptr;
  };

  void run();
  void finish(const Item& item);

  PeerEvents& events_;
  const std::uint32_t peer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // the thread waits for the first
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace nf::torch_front
