// The arithmetic of powersgd (docs/codecs/powersgd.md) on a device, bit-identical to
// collective/low_rank.h. One launch per step serves all parameters of a call, with tables that
// depend on shapes only.
//
// gradient + error is never stored: every kernel recomputes it, and neither changes before the last
// kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// One parameter that is sent as factors. Matrices are row-major, factors column-major.
struct LowRankMatrix {
  void* values = nullptr;   // rows x cols
  float* basis = nullptr;   // cols x terms, kept between steps
  float* error = nullptr;   // rows x cols, kept between steps
  float* first = nullptr;   // rows x terms
  float* second = nullptr;  // cols x terms
  float* own = nullptr;     // second before the sum
  double* work = nullptr;   // scratch, as large as the larger factor
  std::uint64_t parameter = 0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
};

// The part of a matrix that one thread block processes.
struct LowRankTile {
  std::uint32_t matrix = 0;
  std::uint32_t row = 0;
  std::uint32_t col = 0;
};

// A piece of a parameter that is sent unfactored, in FP32.
struct PlainPiece {
  void* values = nullptr;
  float* wide = nullptr;
  std::uint32_t count = 0;
};

// All parameters of one call, in device memory.
struct LowRankTables {
  DataType type = DataType::kFloat32;
  std::uint32_t terms = 0;
  std::uint64_t seed = 0;
  const LowRankMatrix* matrices = nullptr;
  std::uint32_t matrix_count = 0;
  std::uint32_t* is_used = nullptr;        // by matrix: a value is not zero
  std::uint32_t* is_finite = nullptr;      // by matrix: the second factor is finite
  std::uint32_t* has_nonfinite = nullptr;  // any result is non-finite
  const LowRankTile* rows = nullptr;
  std::uint32_t row_count = 0;
  const LowRankTile* columns = nullptr;
  std::uint32_t column_count = 0;
  const LowRankTile* results = nullptr;
  std::uint32_t result_count = 0;
  const PlainPiece* plain = nullptr;
  std::uint32_t plain_count = 0;
};

// Rows of a tile of first factors, columns of a tile of second factors, rows and columns of a tile
// of results, and values of an unfactored piece.
inline constexpr std::uint32_t kRowTile = 16;
inline constexpr std::uint32_t kColumnTile = 32;
inline constexpr std::uint32_t kResultRows = 32;
inline constexpr std::uint32_t kResultColumns = 64;
inline constexpr std::uint32_t kPlainPiece = 2048;

// Draws the initial bases of matrices.
Status init_bases(const LowRankMatrix* matrices, std::uint32_t count, std::uint32_t terms,
                  std::uint64_t seed, cudaStream_t stream);

// LowRank::first_factor(): writes first factors, and the unfactored values. If all values of a
// matrix are zero, its error is neither added, here and below, nor changed.
Status compute_first_factors(const LowRankTables& tables, float loss_scale, cudaStream_t stream);
// LowRank::second_factor(), once first factors are reduced: writes second factors.
Status compute_second_factors(const LowRankTables& tables, float loss_scale, cudaStream_t stream);
// LowRank::finish(), once second factors are reduced: writes values, and errors and bases if all
// values of the call are finite.
Status finish_low_rank(const LowRankTables& tables, float loss_scale, cudaStream_t stream);

// Part of compute_second_factors(): makes first factors orthonormal in place, or NaN if one is
// non-finite.
Status make_first_orthonormal(const LowRankTables& tables, cudaStream_t stream);
// Part of finish_low_rank(): sets is_finite, and has_nonfinite if any second factor is non-finite.
Status check_second(const LowRankTables& tables, cudaStream_t stream);
// Part of finish_low_rank(): computes the bases of the next step, unless has_nonfinite.
Status update_bases(const LowRankTables& tables, cudaStream_t stream);

}  // namespace nf::cuda
