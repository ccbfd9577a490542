// Columns made orthonormal by one thread block, in FP64, with the bits of LowRank on the CPU. There
// a column is finished before the next is touched; here every finished column is taken off all
// later ones at once. For any one column those are the same operations in the same order.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "collective/low_rank_limits.h"
#include "cuda/device/draws.cuh"
#include "cuda/device/warp.cuh"

namespace nf::device {

inline constexpr unsigned kOrthonormalThreads = 512;

// The sum of kSumLanes lanes, in halves: i + 8, then i + 4, ... All lanes of a warp call; the first
// of every 16 has it.
template <typename T>
__device__ __forceinline__ T sum_of_lanes(T sum) {
#pragma unroll
  for (unsigned half = kSumLanes / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, half, static_cast<int>(kSumLanes));
  }
  return sum;
}

// By the 16 lanes of half a warp, the same number of values in both halves. In the first lane.
__device__ inline double dot(const double* a, const double* b, std::uint32_t length) {
  constexpr unsigned kAhead = 8;  // loads under way at once
  double sum = 0;
  std::uint32_t i = threadIdx.x % kSumLanes;
  for (; i + (kAhead - 1) * kSumLanes < length; i += kAhead * kSumLanes) {
    double products[kAhead];
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) products[k] = a[i + k * kSumLanes] * b[i + k * kSumLanes];
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) sum += products[k];
  }
  for (; i < length; i += kSumLanes) sum += a[i] * b[i];
  return sum_of_lanes(sum);
}

// Where a column that depends on those before it is to be replaced.
struct ColumnDraws {
  std::uint64_t seed = 0;
  std::uint64_t parameter = 0;
};

class Orthonormal {
 public:
  struct Shared {
    double before[kMostTerms];  // the columns' lengths as they came
    double along[kMostTerms];   // how much of the finished column is in each
    double factor;
    bool is_drawn[kMostTerms];
    bool is_independent;
  };

  // `columns`, one after the other, are visible to the whole block.
  __device__ Orthonormal(Shared& shared, double* columns, std::uint32_t length, std::uint32_t count)
      : shared_(shared), columns_(columns), length_(length), count_(count) {}

  // Unit columns orthogonal to each other. A dependent one becomes zero, or is drawn where there
  // are `draws`.
  __device__ void make(const ColumnDraws* draws) {
    measure();
    // A column of zeros stays one, so that it can be drawn beforehand.
    for (std::uint32_t k = 0; k < count_; ++k) {
      const bool is_drawn = draws != nullptr && shared_.before[k] == 0;
      if (is_drawn) draw(*draws, k);
      if (threadIdx.x == 0) shared_.is_drawn[k] = is_drawn;
    }
    __syncthreads();
    if (draws != nullptr) measure();
    for (std::uint32_t k = 0; k < count_; ++k) {
      finish(k);
      if (draws != nullptr && !shared_.is_independent && !shared_.is_drawn[k]) {
        draw_anew(*draws, k);
        finish(k);
      }
      take_off_later(k);
    }
  }

 private:
  __device__ double* column(std::uint32_t k) const {
    return columns_ + static_cast<std::size_t>(k) * length_;
  }

  // The lengths of all columns, two a warp.
  __device__ void measure() {
    constexpr unsigned kTeams = kOrthonormalThreads / kSumLanes;
    for (std::uint32_t first = 0; first < count_; first += kTeams) {
      const std::uint32_t k = first + threadIdx.x / kSumLanes;
      const double* own = column(min(k, count_ - 1));
      const double square = dot(own, own, length_);
      if (k < count_ && threadIdx.x % kSumLanes == 0) shared_.before[k] = sqrt(square);
    }
    __syncthreads();
  }

  __device__ void draw(const ColumnDraws& draws, std::uint32_t k) {
    const DrawStream stream(draws.seed, k, draws.parameter, kSharedEncoder, DrawPurpose::kLowRank);
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      column(k)[i] = (2.0 * draw_of(stream, i) + 1) / 65536 - 1;
    }
  }

  // A drawn column in the place of column k, less what is in it of those before.
  __device__ void draw_anew(const ColumnDraws& draws, std::uint32_t k) {
    draw(draws, k);
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const double square = dot(column(k), column(k), length_);
      if (threadIdx.x == 0) shared_.before[k] = sqrt(square);
    }
    for (std::uint32_t j = 0; j < k; ++j) {
      if (threadIdx.x < kWarp) {
        const double along = dot(column(j), column(k), length_);
        if (threadIdx.x == 0) shared_.along[k] = along;
      }
      __syncthreads();
      const double along = shared_.along[k];
      for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
        column(k)[i] -= along * column(j)[i];
      }
      __syncthreads();
    }
    __syncthreads();
  }

  // Makes column k, which has nothing of those before it any more, a unit vector or zero.
  __device__ void finish(std::uint32_t k) {
    if (threadIdx.x < kWarp) {
      const double left = sqrt(dot(column(k), column(k), length_));
      if (threadIdx.x == 0) {
        shared_.is_independent = left > kDependent * shared_.before[k];
        shared_.factor = shared_.is_independent ? 1 / left : 0;
      }
    }
    __syncthreads();
    const double factor = shared_.factor;
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      column(k)[i] *= factor;
    }
    __syncthreads();
  }

  __device__ void take_off_later(std::uint32_t k) {
    constexpr unsigned kTeams = kOrthonormalThreads / kSumLanes;
    const double* finished = column(k);
    for (std::uint32_t first = k + 1; first < count_; first += kTeams) {
      const std::uint32_t later = first + threadIdx.x / kSumLanes;
      const double along = dot(finished, column(min(later, count_ - 1)), length_);
      if (later < count_ && threadIdx.x % kSumLanes == 0) shared_.along[later] = along;
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      const double own = finished[i];
#pragma unroll 4
      for (std::uint32_t later = k + 1; later < count_; ++later) {
        column(later)[i] -= shared_.along[later] * own;
      }
    }
    __syncthreads();
  }

  Shared& shared_;
  double* const columns_;
  const std::uint32_t length_;
  const std::uint32_t count_;
};

}  // namespace nf::device
