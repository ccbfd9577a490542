// What a rank tells all others once, outside the order of its messages: that it gives up, and why,
// or that it has ended.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "peer_events.h"

namespace nf::torch_front {

struct C10dNotice {
  std::uint64_t steps = 0;  // that a rank made which has ended
  std::array<char, 1016>
      reason{};  // why it gave up, as text that ends with a zero byte; else empty
};

// On its way to all peers. Gloo may read it for as long as it lives.
class C10dNotices {
 public:
  C10dNotices(c10d::ProcessGroup& group, const C10dNotice& notice);

 private:
  C10dNotice notice_;
  std::vector<c10::intrusive_ptr<c10d::Work>> sends_;
};

// Waits for a peer's notice, in a thread of its own.
class C10dWatch {
 public:
  C10dWatch(c10d::ProcessGroup& group, PeerEvents& events, std::uint32_t peer);
  ~C10dWatch();

  // Ends the thread. A notice still finds its room.
  void stop();

 private:
  void run();

  PeerEvents& events_;
  const std::uint32_t peer_;
  C10dNotice notice_;
  std::atomic<bool> is_closing_ = false;
  c10::intrusive_ptr<c10d::Work> work_;
  std::thread thread_;
};

C10dNotice notice_of(std::string_view reason);

}  // namespace nf::torch_front
