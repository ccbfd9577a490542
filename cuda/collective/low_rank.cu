#include "cuda/collective/low_rank.h"

#include "base/float16.h"
#include "collective/low_rank_limits.h"
#include "cuda/base/launch.h"
#include "cuda/device/orthonormal.cuh"
#include "cuda/device/values.cuh"

namespace nf::cuda {
namespace {

using device::kWarp;

// The launch bounds set the resident blocks per multiprocessor: without them the compiler uses too
// few registers to keep many loads in flight.
constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr std::uint32_t kNanBits = 0x7fc00000u;

static_assert(kRowTile == kThreads / kSumLanes);
static_assert(kColumnTile == kWarp);

// Element i of gradient + error.
template <DataType kType>
__device__ __forceinline__ float input_at(const LowRankMatrix& matrix, std::uint64_t i,
                                          float loss_scale) {
  return device::load_value<kType>(matrix.values, i) + loss_scale * matrix.error[i];
}

// Sets is_used if any value of a matrix is neither 0 nor -0. Half a warp per row.
template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    find_nonzero(const LowRankMatrix* matrices, const LowRankTile* tiles, std::uint32_t* is_used) {
  const LowRankTile tile = tiles[blockIdx.x];
  const LowRankMatrix matrix = matrices[tile.matrix];
  const std::uint32_t row = tile.row + threadIdx.x / kSumLanes;
  if (row >= matrix.rows) return;
  bool is_zero = true;
  for (std::uint32_t col = threadIdx.x % kSumLanes; col < matrix.cols; col += kSumLanes) {
    const std::uint64_t at = std::uint64_t{row} * matrix.cols + col;
    is_zero &= magnitude_bits(device::load_value<kType>(matrix.values, at)) == 0;
  }
  if (!is_zero) is_used[tile.matrix] = 1;
}

// The factor of the error in gradient + error.
__device__ __forceinline__ float error_scale(std::uint32_t is_used, float loss_scale) {
  return is_used != 0 ? loss_scale : 0.0f;
}

// Half a warp per row. One read of the row serves kTerms columns of the factor. If an element is
// not usable, this row of the factor becomes NaN, which propagates to all ranks.
template <DataType kType, unsigned kTerms>
__global__ void __launch_bounds__(kThreads, 4)
    first_factor(const LowRankMatrix* matrices, const LowRankTile* tiles, std::uint32_t terms,
                 const std::uint32_t* is_used, float loss_scale) {
  const LowRankTile tile = tiles[blockIdx.x];
  const float scale = error_scale(is_used[tile.matrix], loss_scale);
  const LowRankMatrix matrix = matrices[tile.matrix];
  const std::uint32_t cols = matrix.cols;
  const std::uint32_t row = tile.row + threadIdx.x / kSumLanes;
  const std::uint64_t at = std::uint64_t{min(row, matrix.rows - 1)} * cols;
  const bool is_first_lane = threadIdx.x % kSumLanes == 0;
  for (std::uint32_t term = 0; term < terms; term += kTerms) {
    const float* columns[kTerms];
#pragma unroll
    for (unsigned k = 0; k < kTerms; ++k) {
      columns[k] = matrix.basis + std::uint64_t{min(term + k, terms - 1)} * cols;
    }
    float sums[kTerms] = {};
    bool is_usable = true;
#pragma unroll 4
    for (std::uint32_t col = threadIdx.x % kSumLanes; col < cols; col += kSumLanes) {
      const float held = input_at<kType>(matrix, at + col, scale);
      is_usable &= fabsf(held) <= kMaxMagnitude;
#pragma unroll
      for (unsigned k = 0; k < kTerms; ++k) sums[k] += held * columns[k][col];
    }
    const unsigned unusable = device::sum_of_lanes(is_usable ? 0u : 1u);
#pragma unroll
    for (unsigned k = 0; k < kTerms; ++k) {
      const float sum = device::sum_of_lanes(sums[k]);
      if (is_first_lane && row < matrix.rows && term + k < terms) {
        matrix.first[std::uint64_t{term + k} * matrix.rows + row] =
            unusable == 0 ? sum : __uint_as_float(kNanBits);
      }
    }
  }
}

// One thread per column and every kWarps-th term, row after row. The thread block stages tiles of
// the matrix in shared memory, and loads the next tile while it processes the current one.
template <DataType kType, unsigned kTerms>
__global__ void __launch_bounds__(kThreads, 2)
    second_factor(const LowRankMatrix* matrices, const LowRankTile* tiles, std::uint32_t terms,
                  const std::uint32_t* is_used, float loss_scale) {
  constexpr std::uint32_t kRows = 64;
  constexpr std::uint32_t kOwn = kRows / kWarps;  // rows of a tile that a warp loads
  __shared__ float held[kRows][kColumnTile];
  __shared__ float weights[kTerms * kWarps][kRows];
  const LowRankTile tile = tiles[blockIdx.x];
  const LowRankMatrix matrix = matrices[tile.matrix];
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t col = tile.col + lane;
  const float scale = error_scale(is_used[tile.matrix], loss_scale);
  float next[kOwn];
  const auto load = [&](std::uint32_t first) {
#pragma unroll
    for (std::uint32_t i = 0; i < kOwn; ++i) {
      const std::uint32_t row = first + warp + i * kWarps;
      next[i] = row < matrix.rows && col < matrix.cols
                    ? input_at<kType>(matrix, std::uint64_t{row} * matrix.cols + col, scale)
                    : 0.0f;
    }
  };
  float sums[kTerms] = {};
  load(0);
  for (std::uint32_t first = 0; first < matrix.rows; first += kRows) {
    const std::uint32_t rows = min(kRows, matrix.rows - first);
    __syncthreads();
#pragma unroll
    for (std::uint32_t i = 0; i < kOwn; ++i) held[warp + i * kWarps][lane] = next[i];
    for (std::uint32_t i = threadIdx.x; i < kTerms * kWarps * kRows; i += kThreads) {
      const std::uint32_t term = i / kRows;
      const std::uint32_t row = i % kRows;
      weights[term][row] = term < terms && row < rows
                               ? matrix.first[std::uint64_t{term} * matrix.rows + first + row]
                               : 0.0f;
    }
    __syncthreads();
    load(first + kRows);
    const auto add = [&](std::uint32_t row) {
      const float value = held[row][lane];
#pragma unroll
      for (unsigned k = 0; k < kTerms; ++k) sums[k] += weights[warp + k * kWarps][row] * value;
    };
    if (rows == kRows) {
#pragma unroll 16
      for (std::uint32_t row = 0; row < kRows; ++row) add(row);
    } else {
      for (std::uint32_t row = 0; row < rows; ++row) add(row);
    }
  }
  if (col >= matrix.cols) return;
#pragma unroll
  for (unsigned k = 0; k < kTerms; ++k) {
    const std::uint32_t term = warp + k * kWarps;
    if (term >= terms) continue;
    matrix.second[std::uint64_t{term} * matrix.cols + col] = sums[k];
    matrix.own[std::uint64_t{term} * matrix.cols + col] = sums[k];
  }
}

// Whether `value` is finite after rounding to the type.
template <DataType kType>
__device__ __forceinline__ bool stays_finite(float value) {
  std::uint32_t held[1];
  device::store_value<kType>(value, held, 0);
  const float rounded = device::load_value<kType>(held, 0);
  return magnitude_bits(rounded) < kInfinityBits;
}

// The products of the factors, term after term: one thread per column and kRows rows. With kChecks
// the results are only checked: no error may change before all results are known to be finite.
template <DataType kType, bool kChecks>
__global__ void __launch_bounds__(kThreads, 2)
    write_results(const LowRankMatrix* matrices, const LowRankTile* tiles, std::uint32_t terms,
                  const std::uint32_t* is_used, const std::uint32_t* is_finite,
                  std::uint32_t* has_nonfinite, float loss_scale, float unscale) {
  constexpr std::uint32_t kRows = kResultRows * kResultColumns / kThreads;
  __shared__ float weights[kMaxTerms][kResultRows];
  const LowRankTile tile = tiles[blockIdx.x];
  const LowRankMatrix matrix = matrices[tile.matrix];
  for (std::uint32_t i = threadIdx.x; i < terms * kResultRows; i += kThreads) {
    const std::uint32_t term = i / kResultRows;
    const std::uint32_t row = tile.row + i % kResultRows;
    weights[term][i % kResultRows] =
        row < matrix.rows ? matrix.first[std::uint64_t{term} * matrix.rows + row] : 0.0f;
  }
  __syncthreads();
  const std::uint32_t strip = threadIdx.x / kResultColumns * kRows;
  const std::uint32_t col = tile.col + threadIdx.x % kResultColumns;
  if (col >= matrix.cols) return;
  const bool is_usable = is_finite[tile.matrix] != 0;
  const auto index = [&](std::uint32_t r) {
    return std::uint64_t{min(tile.row + strip + r, matrix.rows - 1)} * matrix.cols + col;
  };
  float held[kRows];
  if constexpr (!kChecks) {
#pragma unroll
    for (std::uint32_t r = 0; r < kRows; ++r) {
      held[r] = input_at<kType>(matrix, index(r), loss_scale);
    }
  }
  float sums[kRows] = {};
  float owns[kRows] = {};
#pragma unroll 4
  for (std::uint32_t term = 0; term < terms; ++term) {
    const float sum = matrix.second[std::uint64_t{term} * matrix.cols + col];
    const float own = kChecks ? 0.0f : matrix.own[std::uint64_t{term} * matrix.cols + col];
#pragma unroll
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const float weight = weights[term][strip + r];
      sums[r] += weight * sum;
      if constexpr (!kChecks) owns[r] += weight * own;
    }
  }
  if constexpr (kChecks) {
    bool stay_finite = true;
#pragma unroll
    for (std::uint32_t r = 0; r < kRows; ++r) stay_finite &= stays_finite<kType>(sums[r]);
    if (!stay_finite) *has_nonfinite = 1;
    return;
  }
  // An error that was not added does not change.
  const bool is_kept = *has_nonfinite == 0 && is_used[tile.matrix] != 0;
#pragma unroll
  for (std::uint32_t r = 0; r < kRows; ++r) {
    if (tile.row + strip + r >= matrix.rows) break;
    if (is_kept) matrix.error[index(r)] = unscale * (held[r] - owns[r]);
    device::store_value<kType>(is_usable ? sums[r] : __uint_as_float(kNanBits), matrix.values,
                               index(r));
  }
}

template <DataType kType, bool kWidens>
__global__ void __launch_bounds__(kThreads)
    copy_plain(const PlainPiece* pieces, std::uint32_t* has_nonfinite) {
  const PlainPiece piece = pieces[blockIdx.x];
  for (std::uint32_t i = threadIdx.x; i < piece.count; i += kThreads) {
    if constexpr (kWidens) {
      piece.wide[i] = device::load_value<kType>(piece.values, i);
    } else {
      device::store_value<kType>(piece.wide[i], piece.values, i);
      if (!stays_finite<kType>(piece.wide[i])) *has_nonfinite = 1;
    }
  }
}

// Calls work with the smallest of 1, 2, 4 and 8 that is at least `count`, or 8, as a constant.
template <typename Work>
Status with_terms(std::uint32_t count, Work work) {
  if (count <= 1) return work(std::integral_constant<unsigned, 1>());
  if (count <= 2) return work(std::integral_constant<unsigned, 2>());
  if (count <= 4) return work(std::integral_constant<unsigned, 4>());
  return work(std::integral_constant<unsigned, 8>());
}

}  // namespace

Status compute_first_factors(const LowRankTables& tables, float loss_scale, cudaStream_t stream) {
  return with_type(tables.type, [&](auto type) {
    NF_RETURN_IF_ERROR(launch("low rank copy_plain", copy_plain<type.value, true>,
                              tables.plain_count, kThreads, stream, tables.plain, nullptr));
    NF_RETURN_IF_ERROR(to_status(
        cudaMemsetAsync(tables.is_used, 0, tables.matrix_count * sizeof(*tables.is_used), stream),
        "clearing flags"));
    NF_RETURN_IF_ERROR(launch("low rank find_nonzero", find_nonzero<type.value>, tables.row_count,
                              kThreads, stream, tables.matrices, tables.rows, tables.is_used));
    return with_terms(tables.terms, [&](auto terms) {
      return launch("low rank first_factor", first_factor<type.value, terms.value>,
                    tables.row_count, kThreads, stream, tables.matrices, tables.rows, tables.terms,
                    tables.is_used, loss_scale);
    });
  });
}

Status compute_second_factors(const LowRankTables& tables, float loss_scale, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(make_first_orthonormal(tables, stream));
  return with_type(tables.type, [&](auto type) {
    return with_terms((tables.terms + kWarps - 1) / kWarps, [&](auto terms) {
      return launch("low rank second_factor", second_factor<type.value, terms.value>,
                    tables.column_count, kThreads, stream, tables.matrices, tables.columns,
                    tables.terms, tables.is_used, loss_scale);
    });
  });
}

Status finish_low_rank(const LowRankTables& tables, float loss_scale, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(
      to_status(cudaMemsetAsync(tables.has_nonfinite, 0, sizeof(*tables.has_nonfinite), stream),
                "clearing a flag"));
  NF_RETURN_IF_ERROR(check_second(tables, stream));
  return with_type(tables.type, [&](auto type) {
    const auto results = [&](const char* what, auto checks) {
      return launch(what, write_results<type.value, checks.value>, tables.result_count, kThreads,
                    stream, tables.matrices, tables.results, tables.terms, tables.is_used,
                    tables.is_finite, tables.has_nonfinite, loss_scale, 1 / loss_scale);
    };
    NF_RETURN_IF_ERROR(launch("low rank copy_plain", copy_plain<type.value, false>,
                              tables.plain_count, kThreads, stream, tables.plain,
                              tables.has_nonfinite));
    NF_RETURN_IF_ERROR(results("low rank check_results", std::true_type()));
    NF_RETURN_IF_ERROR(update_bases(tables, stream));
    return results("low rank write_results", std::false_type());
  });
}

}  // namespace nf::cuda
