// The stream of a channel's exchanges. All collectives of the channel share it: a process has only
// CUDA_DEVICE_MAX_CONNECTIONS hardware queues (8 by default), and an exchange that waits for a peer
// blocks the other streams of its queue.
#pragma once

#include <cuda_runtime_api.h>

#include "neuron_fabric/status.h"

namespace nf::cuda {

class Wire {
 public:
  Wire() = default;
  // Waits for the exchanges on it.
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Creates the stream on the current device. No-op after the first call.
  Status prepare();
  // Null before prepare().
  cudaStream_t stream() const { return stream_; }
  // Waits for the exchanges on it. No-op before prepare().
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace nf::cuda
