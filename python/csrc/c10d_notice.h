// The notice that a rank sends to all others once, outside the order of its messages, when it
// aborts or shuts down.
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
  std::uint64_t steps = 0;          // of a shutdown: the completed ones
  std::array<char, 1016> reason{};  // of an abort: zero-terminated; otherwise empty
};

// A notice sent to all peers. Gloo may read it while it lives.
class C10dNotices {
 public:
  C10dNotices(c10d::ProcessGroup& group, const C10dNotice& notice);

 private:
  C10dNotice notice_;
  std::vector<c10::intrusive_ptr<c10d::Work>> sends_;
};

// A thread that waits for the notice of a peer.
class C10dWatch {
 public:
  C10dWatch(c10d::ProcessGroup& group, PeerEvents& events, std::uint32_t peer);
  ~C10dWatch();

  // Ends the thread. The receive buffer stays valid.
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
