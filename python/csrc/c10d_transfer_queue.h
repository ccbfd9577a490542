// A thread that waits for the transfers with one peer in one direction, one after the other.
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

// Gloo finishes the work of one queue in the order of its start.
class C10dTransferQueue {
 public:
  C10dTransferQueue(PeerEvents& events, std::uint32_t peer);
  // Takes back what is under way.
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
  std::deque<Item> items_;  // the first is being waited for
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace nf::torch_front
