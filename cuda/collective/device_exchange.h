// The sum of several parts at once, each with a codec of its own, on device memory and CUDA
// streams, like Exchange. The statistics of all parts take one exchange of the transport per
// direction, and the messages of all parts one per tile and round. Each part has the result that it
// would have alone, and sends the same bytes. All work is enqueued at once, without host
// synchronisation; while one tile is exchanged, the kernels of another run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/collective/device_exchange_part.h"
#include "cuda/collective/tile_pipeline.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class DeviceExchange {
 public:
  // Keeps references to both.
  DeviceExchange(StreamTransport& transport, Wire& wire) : transport_(transport), pipeline_(wire) {}

  struct Input {
    DeviceExchangePart* part = nullptr;
    std::span<const Gradient> gradients = {};
    // In a reduce-scatter, as in DeviceCollective::enqueue().
    std::span<const std::size_t> shards = {};
    // If gradients are parts of parameters: the first element of each, a multiple of granule().
    // Precondition: the codec keeps no residuals.
    std::span<const std::uint64_t> firsts = {};
  };

  // As DeviceCollective::enqueue(), for the gradients of all inputs; `call.gradients` is not used.
  // All ranks give the same parts in the same order. Allocates the memory of all parts before
  // anything is sent. Precondition: the parts differ, belong to this rank of the transport, and
  // have the same collective and topology.
  Status enqueue(const AllReduceCall& call, std::span<const Input> inputs, cudaStream_t stream);

 private:
  Status reserve(cudaStream_t stream);
  Status sum(cudaStream_t stream);
  Status exchange_statistics(cudaStream_t stream);
  Status run_tiles(cudaStream_t stream);
  // Enqueues the listed transfers, if there are any.
  Status exchange(cudaStream_t stream);

  StreamTransport& transport_;

  // State of the current call.
  std::vector<DeviceExchangePart*> parts_;  // those with gradients
  std::uint32_t tiles_ = 0;                 // of the part that has most
  StreamTransfers transfers_;

  TilePipeline pipeline_;
};

}  // namespace nf::cuda
