// Statistics that combine by maximum of unsigned numbers.
#pragma once

#include "cuda/base/launch.h"

namespace nf::device {

inline constexpr unsigned kMaxOfRanksThreads = 256;

template <typename Number>
__global__ void __launch_bounds__(kMaxOfRanksThreads)
    max_of_ranks(std::uint32_t ranks, const Number* by_rank, std::size_t count, Number* combined) {
  const std::size_t i = std::size_t{blockIdx.x} * kMaxOfRanksThreads + threadIdx.x;
  if (i >= count) return;
  Number max = by_rank[i];
#pragma unroll 4
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const Number other = by_rank[rank * count + i];
    max = other > max ? other : max;
  }
  combined[i] = max;
}

// `size` in bytes. Precondition: the pointers are aligned to a Number.
template <typename Number>
Status combine_max(std::uint32_t ranks, const std::byte* by_rank, std::size_t size,
                   std::byte* combined, cudaStream_t stream) {
  const std::size_t count = size / sizeof(Number);
  if (count == 0) return {};
  return cuda::launch("maximum of statistics", max_of_ranks<Number>,
                      cuda::grid_of(count, kMaxOfRanksThreads), kMaxOfRanksThreads, stream, ranks,
                      reinterpret_cast<const Number*>(by_rank), count,
                      reinterpret_cast<Number*>(combined));
}

}  // namespace nf::device
