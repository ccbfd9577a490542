// What gradients on a device travel by, and how to wait for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/fabric.h"

namespace nf::cuda {

// Low-bit sums happen in channels, which buckets take in turn: while messages of one bucket are on
// the wire, the kernels of the next run.
struct Channel {
  StreamTransport& transport;  // this channel's alone
  cudaStream_t stream = nullptr;
  DeviceAllocator* allocator = nullptr;  // for this stream; pool_allocator() where null
};

// All of it is borrowed.
struct DeviceContext {
  std::vector<Channel> channels;  // at least one, and as many on every rank
  DenseEngine& engine;            // puts its sums on `engine_stream`
  // Not `stream`, or the dense values of a bucket wait for the low bits of the one before.
  cudaStream_t engine_stream = nullptr;
  cudaStream_t stream = nullptr;         // where buckets are complete, one after the other
  DeviceAllocator* allocator = nullptr;  // for this stream; pool_allocator() where null
  // Up to so many bytes, the dense values of a bucket with low bits travel in its channel, too: an
  // exchange more there costs less than a sum of the engine's.
  std::size_t max_channel_bytes = 1 << 20;
  // The stream on which the gradients of the bucket that begins now are made; `stream` where null.
  std::function<cudaStream_t()> producer = {};
  // Asked every now and then by whoever has waited so long for a step: an error where there is no
  // use in waiting any longer.
  std::function<Status(std::uint64_t step, Duration waited)> check_peers = {};

  std::uint32_t rank() const { return channels.front().transport.rank(); }
  std::uint32_t ranks() const { return channels.front().transport.ranks(); }
};

// Until `ask` no longer says cudaErrorNotReady. Where a peer is lost all transports are aborted,
// so that the device does not wait for it either.
Status wait(const DeviceContext& context, std::uint64_t step,
            const std::function<cudaError_t()>& ask);

}  // namespace nf::cuda
