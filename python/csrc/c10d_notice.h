// The notice that a rank sends to all others once, outside the order of its messages, when it
// aborts or shuts down.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "peer_events.h"

namespace nf::torch_front {

struct C10dNotice {
  std::uint64_t steps = 0;          // of a shutdown: the completed ones
  std::array<char, 1015> reason{};  // of an abort: zero-terminated; otherwise empty
  std::uint8_t has_arrived = 0;     // 1 in every notice that is sent
};

// A notice sent to all peers. Gloo may read it while it lives.
class C10dNotices {
 public:
  C10dNotices(c10d::Backend& backend, const C10dNotice& notice);

 private:
  C10dNotice notice_;
  std::vector<c10::intrusive_ptr<c10d::Work>> sends_;
};

// Watches all peers on one thread: receives their notices, and detects lost connections within a
// few hundredths of a second.
class C10dWatch {
 public:
  C10dWatch(c10d::Backend& backend, PeerEvents& events);
  ~C10dWatch();

  // Ends the thread. The receive buffers stay valid.
  void stop();

 private:
  struct Peer {
    std::uint32_t rank = 0;
    C10dNotice notice;
    c10::intrusive_ptr<c10d::Work> work;  // receives the notice; null once it has completed
  };

  void run();
  void poll(Peer& peer);
  void report(Peer& peer);

  PeerEvents& events_;
  std::vector<Peer> peers_;
  std::mutex mutex_;
  std::condition_variable closing_;
  bool is_closing_ = false;  // guarded by mutex_
  std::thread thread_;
};

C10dNotice notice_of(std::string_view reason);
C10dNotice notice_of(std::uint64_t steps);

}  // namespace nf::torch_front
