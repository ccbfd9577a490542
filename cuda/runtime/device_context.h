// The transports, streams and engine of gradients on a device, and how to wait for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/fabric.h"
#include "runtime/plan.h"

namespace nf::cuda {

// Buckets use the channels in turn, so that the kernels of one bucket overlap with the transfers of
// another.
struct Channel {
  StreamTransport& transport;  // used by this channel only
  cudaStream_t stream = nullptr;
  DeviceAllocator* allocator = nullptr;  // for this stream; pool_allocator() if null
};

// All members are borrowed.
struct DeviceContext {
  std::vector<Channel> channels;  // at least one, the same number on every rank
  DenseEngine& engine;            // enqueues its sums on `engine_stream`
  // Not `stream`: otherwise the dense values of a bucket wait for the low bits of the previous one.
  cudaStream_t engine_stream = nullptr;
  cudaStream_t stream = nullptr;         // on which buckets are finished, in order
  DeviceAllocator* allocator = nullptr;  // for this stream; pool_allocator() if null
  // Up to this size, the dense values of a bucket with low-bit routes travel in the exchange of
  // these: that costs less than an all-reduce of the engine.
  std::size_t max_channel_bytes = kMaxJoinedDenseBytes;
  // The stream that computes the gradients of the bucket passed to begin(); `stream` if null.
  std::function<cudaStream_t()> producer = {};
  // Polled while the host waits for a step. Returns an error if waiting longer is pointless.
  std::function<Status(std::uint64_t step, Duration waited)> check_peers = {};

  std::uint32_t rank() const { return channels.front().transport.rank(); }
  std::uint32_t ranks() const { return channels.front().transport.ranks(); }
};

// Polls `query` until it returns something other than cudaErrorNotReady. If a peer is lost, aborts
// all transports, so that the device does not wait for it either.
Status wait(const DeviceContext& context, std::uint64_t step,
            const std::function<cudaError_t()>& query);

}  // namespace nf::cuda
