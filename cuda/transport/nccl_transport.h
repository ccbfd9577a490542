// StreamTransport by NCCL's sends and receives.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/time.h"

namespace nf::cuda {

// How the ranks find each other.
struct NcclRendezvous {
  ncclUniqueId identity = {};  // created by rank 0 and sent to all others
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  Duration timeout = std::chrono::minutes(5);
  // Called periodically while waiting. An error ends the wait.
  std::function<Status(Duration waited)> check_peers = {};
};

// health() and abort() may be called from a second thread.
class NcclTransport final : public StreamTransport {
 public:
  static Expected<ncclUniqueId> make_identity();
  // All ranks call it at the same time, each with its device current. Waits for all ranks. Fails
  // with kDeadlineExceeded, kPeerLost, or the error of check_peers().
  static Expected<std::unique_ptr<NcclTransport>> create(const NcclRendezvous& rendezvous);
  ~NcclTransport() override;

  std::string_view name() const override { return "nccl"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  Status exchange(std::span<const StreamTransfer> sends, std::span<const StreamTransfer> receives,
                  cudaStream_t stream) override;
  Status health() override;
  void abort(const Status& why) override;

  // For benchmarks of NCCL's own collectives.
  ncclComm_t communicator() const { return communicator_; }

 private:
  NcclTransport(ncclComm_t communicator, const NcclRendezvous& rendezvous)
      : rank_(rendezvous.rank),
        ranks_(rendezvous.ranks),
        timeout_(rendezvous.timeout),
        communicator_(communicator) {}

  // Waits until NCCL has no pending call, `timeout` passes, or abort() is called. Precondition: the
  // caller holds the mutex.
  Status finish();

  // Constant after construction.
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const Duration timeout_;

  std::atomic<bool> is_aborted_ = false;
  // Held during calls of NCCL.
  std::timed_mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  Status failure_;
  std::thread aborting_;  // aborts the communicator
};

}  // namespace nf::cuda
