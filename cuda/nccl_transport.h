// Exchanges by NCCL's sends and receives.
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/stream_transport.h"

namespace nf::cuda {

// health() and abort() may be called from a second thread.
class NcclTransport final : public StreamTransport {
 public:
  // Rank 0 makes the identity and gives it to all others.
  static Expected<ncclUniqueId> make_identity();
  // All ranks call it at the same time, each with its device current. Waits for the others.
  static Expected<std::unique_ptr<NcclTransport>> create(const ncclUniqueId& identity,
                                                         std::uint32_t rank, std::uint32_t ranks);
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
  NcclTransport(ncclComm_t communicator, std::uint32_t rank, std::uint32_t ranks)
      : rank_(rank), ranks_(ranks), communicator_(communicator) {}

  const std::uint32_t rank_;
  const std::uint32_t ranks_;

  std::atomic<bool> is_given_up_ = false;
  // Held by whoever is within NCCL.
  std::timed_mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  Status failure_;
  std::thread ending_;  // of a communicator that was aborted
};

}  // namespace nf::cuda
