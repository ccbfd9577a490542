// What error feedback keeps of a route's parameters in device memory: Residuals, without the loss
// scale of the call that lost it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/collective/route_memory.h"

namespace nf::cuda {

class ResidualMemory final : public RouteMemory {
 public:
  ResidualMemory(DeviceAllocator& allocator, cudaStream_t home) : RouteMemory(allocator, home) {}

  // What is kept of a parameter, for work on `stream` until used(stream): zeros at first. Fails
  // where a residual of another size is remembered.
  Expected<float*> use(std::uint64_t parameter, std::size_t count, cudaStream_t stream);

  Status remember(std::span<const Remembered> memory) override;
};

}  // namespace nf::cuda
