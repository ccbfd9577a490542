// Sums in the order of docs/wire_format.md: sixteen running sums, by element modulo 16, folded in
// halves. Values are staged in shared memory, one row per running sum, and each of sixteen threads
// sums a row.
#pragma once

#include <cstddef>

namespace nf::device {

inline constexpr unsigned kRunningSums = 16;

// Floats from one row to the next. The padding of two floats puts neighbouring rows two banks
// apart: storing eight consecutive values per lane and loading pairs are free of bank conflicts.
constexpr unsigned staged_row(unsigned values) { return values / kRunningSums + 2; }
constexpr unsigned staged_floats(unsigned values) { return kRunningSums * staged_row(values); }

// The index of element `e` of a block of `values` values.
__device__ constexpr unsigned staged_at(unsigned values, unsigned e) {
  return e % kRunningSums * staged_row(values) + e / kRunningSums;
}

// Stages elements `first` to `first` + 7, `first` a multiple of 8.
__device__ inline void stage(const float (&x)[8], unsigned values, unsigned first, float* staged) {
  float* at = staged + staged_at(values, first);
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) at[i * staged_row(values)] = x[i];
}

// The sum of sixteen running sums, one per lane. The first of the sixteen lanes gets the result;
// all lanes of a warp take part.
__device__ inline float fold_running_sums(float sum) {
#pragma unroll
  for (unsigned half = kRunningSums / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, half, kRunningSums);
  }
  return sum;
}

// The sum of term(x) over a block of `values` values, by sixteen lanes; the first of them gets the
// result. All lanes of a warp take part.
template <typename Term>
__device__ float running_sum(const float* staged, unsigned values, Term term) {
  const float* row = staged + threadIdx.x % kRunningSums * staged_row(values);
  float sum = 0;
#pragma unroll 16
  for (unsigned i = 0; i < values / kRunningSums; i += 2) {
    const float2 pair = *reinterpret_cast<const float2*>(row + i);
    sum += term(pair.x);
    sum += term(pair.y);
  }
  return fold_running_sums(sum);
}

}  // namespace nf::device
