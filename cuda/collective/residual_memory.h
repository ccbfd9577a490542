// The route memory of error feedback on a device: Residuals, stored without the loss scale.
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

  // The residual of a parameter for work on `stream`, until used(stream). Initially zero. Fails if
  // the residual has another size.
  Expected<float*> use(std::uint64_t parameter, std::size_t count, cudaStream_t stream);

  Status load_memory(std::span<const MemoryEntry> memory) override;
};

}  // namespace nf::cuda
