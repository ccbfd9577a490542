// Gram-Schmidt by one thread block, in FP64, bit-identical to LowRank on the CPU. The CPU finishes
// a column before it starts the next; here every finished column is subtracted from all later ones
// at once. For each column these are the same operations in the same order.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "collective/low_rank_limits.h"
#include "cuda/device/draws.cuh"
#include "cuda/device/warp.cuh"

namespace nf::device {

inline constexpr unsigned kOrthonormalThreads = 512;

// The sum over kSumLanes lanes, in halves: i + 8, then i + 4, ... All lanes of a warp call it; the
// first of every 16 gets the result.
template <typename T>
__device__ __forceinline__ T sum_of_lanes(T sum) {
#pragma unroll
  for (unsigned half = kSumLanes / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, half, static_cast<int>(kSumLanes));
  }
  return sum;
}

// Computed by the 16 lanes of a half-warp; both half-warps have the same length. The first lane
// gets the result.
__device__ inline double dot(const double* a, const double* b, std::uint32_t length) {
  constexpr unsigned kAhead = 8;  // loads in flight
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

// The draws that replace linearly dependent columns.
struct ColumnDraws {
  std::uint64_t seed = 0;
  std::uint64_t parameter = 0;
};

class Orthonormal {
 public:
  struct Shared {
    double initial_norm[kMaxTerms];
    double projection[kMaxTerms];  // of each column onto the finished one
    double factor;
    bool is_drawn[kMaxTerms];
    bool is_independent;
  };

  // `columns`, one after the other, are visible to the whole block.
  __device__ Orthonormal(Shared& shared, double* columns, std::uint32_t length, std::uint32_t count)
      : shared_(shared), columns_(columns), length_(length), count_(count) {}

  // Makes the columns orthonormal. A dependent column becomes zero, or a drawn one if `draws` is
  // not null.
  __device__ void make(const ColumnDraws* draws) {
    compute_norms();
    // A column of zeros would stay zero, so it can be drawn first.
    for (std::uint32_t k = 0; k < count_; ++k) {
      const bool is_drawn = draws != nullptr && shared_.initial_norm[k] == 0;
      if (is_drawn) draw(*draws, k);
      if (threadIdx.x == 0) shared_.is_drawn[k] = is_drawn;
    }
    __syncthreads();
    if (draws != nullptr) compute_norms();
    for (std::uint32_t k = 0; k < count_; ++k) {
      finish(k);
      if (draws != nullptr && !shared_.is_independent && !shared_.is_drawn[k]) {
        redraw(*draws, k);
        finish(k);
      }
      subtract_from_later(k);
    }
  }

 private:
  __device__ double* column(std::uint32_t k) const {
    return columns_ + static_cast<std::size_t>(k) * length_;
  }

  // The norms of all columns, two per warp.
  __device__ void compute_norms() {
    constexpr unsigned kTeams = kOrthonormalThreads / kSumLanes;
    for (std::uint32_t first = 0; first < count_; first += kTeams) {
      const std::uint32_t k = first + threadIdx.x / kSumLanes;
      const double* own = column(min(k, count_ - 1));
      const double square = dot(own, own, length_);
      if (k < count_ && threadIdx.x % kSumLanes == 0) shared_.initial_norm[k] = sqrt(square);
    }
    __syncthreads();
  }

  __device__ void draw(const ColumnDraws& draws, std::uint32_t k) {
    const DrawStream stream(draws.seed, k, draws.parameter, kSharedEncoder, DrawPurpose::kLowRank);
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      column(k)[i] = (2.0 * draw_of(stream, i) + 1) / 65536 - 1;
    }
  }

  // Replaces column k by a drawn one, orthogonal to the columns before it.
  __device__ void redraw(const ColumnDraws& draws, std::uint32_t k) {
    draw(draws, k);
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const double square = dot(column(k), column(k), length_);
      if (threadIdx.x == 0) shared_.initial_norm[k] = sqrt(square);
    }
    for (std::uint32_t j = 0; j < k; ++j) {
      if (threadIdx.x < kWarp) {
        const double projection = dot(column(j), column(k), length_);
        if (threadIdx.x == 0) shared_.projection[k] = projection;
      }
      __syncthreads();
      const double projection = shared_.projection[k];
      for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
        column(k)[i] -= projection * column(j)[i];
      }
      __syncthreads();
    }
    __syncthreads();
  }

  // Normalises column k, which is orthogonal to the columns before it, or makes it zero.
  __device__ void finish(std::uint32_t k) {
    if (threadIdx.x < kWarp) {
      const double norm = sqrt(dot(column(k), column(k), length_));
      if (threadIdx.x == 0) {
        shared_.is_independent = norm > kDependenceTolerance * shared_.initial_norm[k];
        shared_.factor = shared_.is_independent ? 1 / norm : 0;
      }
    }
    __syncthreads();
    const double factor = shared_.factor;
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      column(k)[i] *= factor;
    }
    __syncthreads();
  }

  __device__ void subtract_from_later(std::uint32_t k) {
    constexpr unsigned kTeams = kOrthonormalThreads / kSumLanes;
    const double* finished = column(k);
    for (std::uint32_t first = k + 1; first < count_; first += kTeams) {
      const std::uint32_t later = first + threadIdx.x / kSumLanes;
      const double projection = dot(finished, column(min(later, count_ - 1)), length_);
      if (later < count_ && threadIdx.x % kSumLanes == 0) shared_.projection[later] = projection;
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < length_; i += kOrthonormalThreads) {
      const double own = finished[i];
#pragma unroll 4
      for (std::uint32_t later = k + 1; later < count_; ++later) {
        column(later)[i] -= shared_.projection[later] * own;
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
