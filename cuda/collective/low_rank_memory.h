// The route memory of powersgd on a device: the basis and the error of LowRank.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/collective/route_memory.h"

namespace nf::cuda {

class LowRankMemory final : public RouteMemory {
 public:
  // The arrays of a matrix that is sent as factors.
  static constexpr std::size_t kBasis = 0;
  static constexpr std::size_t kError = 1;

  LowRankMemory(std::uint32_t terms, DeviceAllocator& allocator, cudaStream_t home)
      : RouteMemory(allocator, home), terms_(terms) {}

  std::uint32_t terms() const { return terms_; }

  // The state of a parameter for work on `stream`, until used(stream). Null if a matrix of this
  // shape is sent unfactored. If it is_new, the caller initialises the basis and clears the error.
  // Fails if the memory has another shape.
  Expected<State*> use(std::uint64_t parameter, std::size_t rows, std::size_t cols,
                       cudaStream_t stream);

  Status load_memory(std::span<const MemoryEntry> memory) override;

 private:
  Expected<State*> make(std::uint64_t parameter, std::size_t rows, std::size_t cols);

  const std::uint32_t terms_;
};

}  // namespace nf::cuda
