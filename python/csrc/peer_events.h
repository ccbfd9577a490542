// Events from the threads of a transport: completed and failed transfers, and peers that are lost,
// have aborted or have shut down.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/transport.h"

namespace nf::torch_front {

// A transfer and its peer. The transfer may have been reused by its owner.
struct PendingTransfer {
  Transfer* transfer = nullptr;
  std::uint32_t peer = 0;
};

class PeerEvents {
 public:
  // The end of a peer.
  struct Departure {
    std::uint32_t peer = 0;
    Status status;            // kPeerLost or kAborted
    std::uint64_t steps = 0;  // completed ones, if it shut down cleanly
    Duration when{0};
  };

  // The error of the transport, unless another event is added before `moment`. ok: no error.
  struct Verdict {
    Status status;
    Duration moment = Duration::max();
  };

  // Called by the threads.
  void add_done(Transfer& transfer);
  void add_failed(std::uint32_t peer, const std::string& reason);  // a transfer
  void add_lost(std::uint32_t peer, const std::string& reason);
  void add_aborted(std::uint32_t peer, const std::string& reason);
  void add_shutdown(std::uint32_t peer, std::uint64_t steps);

  // Called by the transport, which holds the mutex.
  std::mutex& mutex() { return mutex_; }
  std::vector<Transfer*>& done() { return done_; }
  Verdict verdict(std::span<const PendingTransfer> pending) const;
  const Departure* departure_of(std::uint32_t peer) const;
  void wait(std::unique_lock<std::mutex>& lock, Duration until);

  // Any thread. The status of the first peer that left before it completed `step`; ok if there is
  // none. Waits up to `timeout` for such an event.
  Status first_missed(std::uint64_t step, Duration timeout);

 private:
  void add(Departure departure);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Transfer*> done_;
  Departure failed_;                   // the first failed transfer
  std::vector<Departure> departures_;  // in order: the first may be the cause of the others
};

}  // namespace nf::torch_front
