// The arithmetic of powersgd (docs/codecs/powersgd.md) on a device, with the bits of
// collective/low_rank.h. One launch a stage serves all parameters of a call, by tables that are
// made from their shapes.
//
// gradient + error is never written: every stage makes it anew from the two, which do not change
// before the last one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// One parameter that travels as factors. Matrices lie row after row, factors column after column.
struct LowRankMatrix {
  void* values = nullptr;   // rows x cols
  float* basis = nullptr;   // cols x terms, kept between steps
  float* error = nullptr;   // rows x cols, likewise
  float* first = nullptr;   // rows x terms
  float* second = nullptr;  // cols x terms
  float* own = nullptr;     // second before the sum
  double* work = nullptr;   // room for the greater of the factors
  std::uint64_t parameter = 0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
};

// What one thread block takes of a matrix.
struct LowRankTile {
  std::uint32_t matrix = 0;
  std::uint32_t row = 0;
  std::uint32_t col = 0;
};

// A piece of a parameter that travels as it is, in FP32.
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
  std::uint32_t* is_used = nullptr;     // by matrix: room for whether a value is not zero
  std::uint32_t* is_finite = nullptr;   // by matrix: room for whether its second factor is
  std::uint32_t* is_unsound = nullptr;  // room for whether any result is not finite
  const LowRankTile* rows = nullptr;
  std::uint32_t row_count = 0;
  const LowRankTile* columns = nullptr;
  std::uint32_t column_count = 0;
  const LowRankTile* results = nullptr;
  std::uint32_t result_count = 0;
  const PlainPiece* plain = nullptr;
  std::uint32_t plain_count = 0;
};

// Rows of a tile of first factors, columns of one of second factors, both of one of results, and
// values of a piece that travels as it is.
inline constexpr std::uint32_t kRowTile = 16;
inline constexpr std::uint32_t kColumnTile = 32;
inline constexpr std::uint32_t kResultRows = 32;
inline constexpr std::uint32_t kResultColumns = 64;
inline constexpr std::uint32_t kPlainPiece = 2048;

// Draws the bases of matrices that have none.
Status start_bases(const LowRankMatrix* matrices, std::uint32_t count, std::uint32_t terms,
                   std::uint64_t seed, cudaStream_t stream);

// LowRank::first_factor(): writes first factors, and the values that travel as they are. The error of a
// matrix whose values are all zero is neither added, here and below, nor changed.
Status begin_low_rank(const LowRankTables& tables, float loss_scale, cudaStream_t stream);
// LowRank::second_factor(), once those are summed: writes second factors.
Status middle_low_rank(const LowRankTables& tables, float loss_scale, cudaStream_t stream);
// LowRank::finish(), once those are summed: writes values, and errors and bases where all values of
// the call are finite.
Status finish_low_rank(const LowRankTables& tables, float loss_scale, cudaStream_t stream);

// Of middle_low_rank(): first factors made orthonormal in place; NaN where one is not finite.
Status make_first_orthonormal(const LowRankTables& tables, cudaStream_t stream);
// Of finish_low_rank(): which second factors are finite; a call where one is not is unsound.
Status check_second(const LowRankTables& tables, cudaStream_t stream);
// Of finish_low_rank(), after that: bases of the next step, unless the call is unsound.
Status renew_bases(const LowRankTables& tables, cudaStream_t stream);

}  // namespace nf::cuda
