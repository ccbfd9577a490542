// Exchanges by NCCL's sends and receives.
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

// Whom a rank meets, and how long it waits for them.
struct NcclRendezvous {
  ncclUniqueId identity = {};  // rank 0 makes it and gives it to all others
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  Duration timeout = std::chrono::minutes(5);
  // Asked every now and then by whoever has waited so long: an error where there is no use in
  // waiting any longer.
  std::function<Status(Duration waited)> check_peers = {};
};

// health() and abort() may be called from a second thread.
class NcclTransport final : public StreamTransport {
 public:
  static Expected<ncclUniqueId> make_identity();
  // All ranks call it at the same time, each with its device current. Waits for the others, and
  // fails with kDeadlineExceeded, with kPeerLost, or with what check_peers() says.
  static Expected<std::unique_ptr<NcclTransport>> create(const NcclRendezvous& rendezvous);
  ~NcclTransport() override;

  std::string_view name() const override { return "nccl"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  Status exchange(std::span<const StreamTransfer> sends, std::span<const StreamTransfer> receives,
                  cudaStream_t stream) override;
  Status health() override;
  void abort(const Status& why) override;

  // For whoever compares with NCCL's own collectives.
  ncclComm_t communicator() const { return communicator_; }

 private:
  NcclTransport(ncclComm_t communicator, const NcclRendezvous& rendezvous)
      : rank_(rendezvous.rank),
        ranks_(rendezvous.ranks),
        timeout_(rendezvous.timeout),
        communicator_(communicator) {}

  // Until NCCL has nothing under way, but no longer than `timeout` and until it is given up.
  // Precondition: holds the mutex.
  Status finish();

  // Constant after construction.
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const Duration timeout_;

  std::atomic<bool> is_given_up_ = false;
  // Held by whoever is within NCCL.
  std::timed_mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  Status failure_;
  std::thread ending_;  // of a communicator that was aborted
};

}  // namespace nf::cuda
