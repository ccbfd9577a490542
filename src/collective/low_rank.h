// Low-rank reduction of one parameter (docs/codecs/powersgd.md): its sum over all ranks is
// approximated by the product of two thin factors, and only the factors are sent. Factors add like
// values, so any dense all-reduce with bit-identical results can sum them.
//
// This file has the arithmetic only. One step is first_factor(), a sum of its result over all
// ranks, second_factor(), another sum, finish(). Whether a parameter is sent as factors or dense
// depends only on its shape; the calls are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nf {

// FP32 values that a rank contributes for a matrix: terms * (rows + cols), or rows * cols if the
// factors would not be smaller and the matrix is sent dense.
std::size_t low_rank_values(std::size_t rows, std::size_t cols, std::uint32_t terms);

// One parameter on one rank: the second factor of the last step, which is bit-identical on all
// ranks, and this rank's error, which is added to its next values. Not thread-safe. Allocates only
// when the shape changes.
class LowRank {
 public:
  // `terms` is the rank of the approximation: the number of columns of both factors. `seed` and
  // `parameter` are equal on all ranks.
  LowRank(std::uint32_t terms, std::uint64_t seed, std::uint64_t parameter);

  // Begins a step with this rank's values, a row-major matrix of `rows` rows that has been
  // multiplied by `loss_scale`. Returns the first factor, which the caller replaces by its sum over
  // all ranks. If the shape differs from that of the last step, deletes basis and error. A step may
  // be abandoned at any point and begun again. If all values are zero, the error is kept but not
  // added, like a residual. Precondition: rows divides values.size(). A vector has one row.
  std::span<float> first_factor(std::span<const float> values, std::size_t rows,
                                float loss_scale = 1);

  // Returns the second factor, to be summed as well; empty if the matrix is sent dense.
  // Precondition: the result of first_factor() holds the sum.
  std::span<float> second_factor();

  // Writes the approximate sum of all ranks' values, bit-identical on all ranks. If a factor
  // contains NaN or Inf, all results are NaN, and basis and error do not change. Precondition: the
  // result of second_factor() holds the sum; `out` has the size of the values.
  void finish(std::span<float> out);

  // Restores basis and error to their state before the last finish(). A no-op if that did not
  // change them, has been undone already, or another step has begun.
  void undo();

  // The state between steps: the shape (0 before the first step), the second factor and the error;
  // both are empty if the matrix is sent dense.
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::span<const float> basis() const { return basis_; }
  std::span<const float> error() const { return error_; }
  // Sets the state. Precondition: a matrix of rows x cols is sent as factors, and the sizes are
  // those of basis() and error() for it.
  void restore(std::size_t rows, std::size_t cols, std::span<const float> basis,
               std::span<const float> error);

 private:
  void reset(std::size_t rows, std::size_t cols);
  void renew_basis();
  void draw_column(std::uint32_t term, std::span<double> column) const;

  const std::uint32_t terms_;
  const std::uint64_t seed_;
  const std::uint64_t parameter_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  bool dense_ = true;
  float loss_scale_ = 1;  // of the current step
  bool is_error_added_ = false;

  // Kept between steps. Factors are column-major.
  std::vector<float> basis_;  // cols x terms: the second factor of the last step, orthonormal
  std::vector<float> error_;  // rows x cols, without the loss scale

  // Whether matrix_ and last_basis_ hold the error and the basis from before the last step.
  bool can_undo_ = false;
  std::vector<float> last_basis_;

  // State of the current step.
  std::vector<float> matrix_;  // values + error
  std::vector<float> first_;   // rows x terms; the values if dense
  std::vector<float> second_;  // cols x terms
  std::vector<float> own_;     // second_ before the sum
  std::vector<double> work_;   // columns while they are made orthonormal
};

}  // namespace nf
