// Statistics that combine by a maximum of unsigned numbers.
#pragma once

#include "cuda/base/launch.h"

namespace nf::device {

inline constexpr unsigned kGreatestThreads = 256;

template <typename Number>
__global__ void __launch_bounds__(kGreatestThreads)
    greatest_of_ranks(std::uint32_t ranks, const Number* by_rank, std::size_t count,
                      Number* combined) {
  const std::size_t i = std::size_t{blockIdx.x} * kGreatestThreads + threadIdx.x;
  if (i >= count) return;
  Number greatest = by_rank[i];
#pragma unroll 4
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const Number other = by_rank[rank * count + i];
    greatest = other > greatest ? other : greatest;
  }
  combined[i] = greatest;
}

// `size` in bytes. Precondition: the pointers are aligned to a Number.
template <typename Number>
Status combine_greatest(std::uint32_t ranks, const std::byte* by_rank, std::size_t size,
                        std::byte* combined, cudaStream_t stream) {
  const std::size_t count = size / sizeof(Number);
  if (count == 0) return {};
  return cuda::launch("maximum of statistics", greatest_of_ranks<Number>,
                      cuda::grid_of(count, kGreatestThreads), kGreatestThreads, stream, ranks,
                      reinterpret_cast<const Number*>(by_rank), count,
                      reinterpret_cast<Number*>(combined));
}

}  // namespace nf::device
