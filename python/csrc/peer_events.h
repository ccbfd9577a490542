// What the threads of a transport tell its user: which transfers are done, which have failed, and
// who of the peers is gone, gave up or has ended.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/transport.h"

namespace nf::torch_front {

// A transfer and its peer, which the transfer itself need not name any more.
struct UnderWay {
  Transfer* transfer = nullptr;
  std::uint32_t peer = 0;
};

class PeerEvents {
 public:
  // The end of a peer, as far as this rank has heard of it.
  struct Departure {
    std::uint32_t peer = 0;
    Status how;               // kPeerLost or kAborted
    std::uint64_t steps = 0;  // that it made, where it said goodbye
    Duration when{0};
  };

  // What the transport fails with unless something else is told before that moment; ok for nothing.
  struct Verdict {
    Status status;
    Duration moment = Duration::max();
  };

  // Of the threads.
  void tell_done(Transfer& transfer);
  void tell_failed(std::uint32_t peer, const std::string& words);  // a transfer with it
  void tell_gone(std::uint32_t peer, const std::string& words);
  void tell_notice(std::uint32_t peer, const std::string& reason);
  void tell_goodbye(std::uint32_t peer, std::uint64_t steps);

  // Of the user, who holds the mutex.
  std::mutex& mutex() { return mutex_; }
  std::vector<Transfer*>& done() { return done_; }
  Verdict verdict(std::span<const UnderWay> under_way) const;
  const Departure* departure_of(std::uint32_t peer) const;
  void wait(std::unique_lock<std::mutex>& lock, Duration until);

  // Of any thread: how the first of those left that had not made their part of `step`; ok while
  // there is none. Waits so long for such events.
  Status first_missed(std::uint64_t step, Duration patience);

 private:
  void tell(Departure departure);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Transfer*> done_;
  Departure failed_;                   // of the first transfer that failed: its peer, how and when
  std::vector<Departure> departures_;  // as they came: the first may be the cause of others
};

}  // namespace nf::torch_front
