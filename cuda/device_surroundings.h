// What gradients on a device travel by, and how to wait for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "cuda/device_memory.h"
#include "cuda/stream_transport.h"
#include "neuron_fabric/fabric.h"

namespace nf::cuda {

// All of it is borrowed.
struct DeviceSurroundings {
  StreamTransport& transport;
  DenseSum& engine;                      // puts its sum on `stream`
  cudaStream_t stream = nullptr;         // for sums alone
  DeviceAllocator* allocator = nullptr;  // pool_allocator() where null
  // The stream on which the gradients of the bucket that begins now are made; `stream` where null.
  std::function<cudaStream_t()> producer = {};
  // Asked every now and then by whoever has waited so long for a step: an error where there is no
  // use in waiting any longer.
  std::function<Status(std::uint64_t step, Duration waited)> look_around = {};
};

// Until `ask` no longer says cudaErrorNotReady. Where a peer is lost the transport is aborted, so
// that the device does not wait for it either.
Status wait(const DeviceSurroundings& surroundings, std::uint64_t step,
            const std::function<cudaError_t()>& ask);

}  // namespace nf::cuda
