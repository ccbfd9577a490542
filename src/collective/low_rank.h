// Low-rank reduction of one parameter (docs/codecs/powersgd.md): its sum over all ranks is
// approximated by the product of two thin factors, and the factors are what travels. Both add as
// values, so any dense all-reduce that leaves the same bits everywhere can sum them.
//
// Only the arithmetic is here. One step is begin(), a sum of what it returned over all ranks,
// middle(), another sum, finish(). Whether the parameter travels as factors or as it is follows
// from its shape alone; the calls are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nf {

// FP32 values that a rank contributes for a matrix: terms * (rows + cols), or rows * cols where
// the factors would be no smaller and the matrix travels as it is.
std::size_t low_rank_values(std::size_t rows, std::size_t cols, std::uint32_t terms);

// One parameter on one rank: the second factor of the last step, which all ranks share to the bit,
// and what this rank has not got across yet. Not for two threads at the same time. Allocates only
// where the shape changes.
class LowRank {
 public:
  // `terms` is the rank of the approximation, the number of columns of both factors. All ranks give
  // equal `seed` and `parameter`.
  LowRank(std::uint32_t terms, std::uint64_t seed, std::uint64_t parameter);

  // Takes this rank's values, a matrix of `rows` rows one after the other that has been multiplied
  // by `loss_scale`, and returns the first factor, to be replaced by its sum over all ranks.
  // Another shape than last time starts anew, without memory of earlier steps. A step may be given
  // up at any point and begun again. If all values are zero, the error is not added but stays, as
  // residuals do. Precondition: rows divides values.size(). A vector has one row.
  std::span<float> begin(std::span<const float> values, std::size_t rows, float loss_scale = 1);

  // Returns the second factor, to be summed alike; empty where the matrix travels as it is.
  // Precondition: what begin() returned holds the sum.
  std::span<float> middle();

  // Writes the approximate sum of all ranks' values, the same bits on every rank. Where a factor
  // is not finite everything is NaN, and what is kept for the next step does not change.
  // Precondition: what middle() returned holds the sum; `out` has as many values as begin() took.
  void finish(std::span<float> out);

  // What is kept for the next step is as it was before the last finish(). Does nothing where that
  // changed nothing, is undone already, or another step has begun since.
  void undo();

  // What is kept between steps: the shape it is of (0 before the first step), the second factor and
  // the error, both empty where the matrix travels as it is.
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::span<const float> basis() const { return basis_; }
  std::span<const float> error() const { return error_; }
  // Goes on from there. Precondition: a matrix of rows x cols travels as factors, and the sizes are
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
  float loss_scale_ = 1;  // of the step under way
  bool is_error_added_ = false;

  // Kept between steps. Factors are stored column after column.
  std::vector<float> basis_;  // cols x terms: the second factor of the last step, orthonormal
  std::vector<float> error_;  // rows x cols, without the loss scale

  // Whether matrix_ and last_basis_ hold the error and the basis from before the last step.
  bool holds_what_was_ = false;
  std::vector<float> last_basis_;

  // Of the step under way.
  std::vector<float> matrix_;  // values + error
  std::vector<float> first_;   // rows x terms; the values where dense
  std::vector<float> second_;  // cols x terms
  std::vector<float> own_;     // second_ before the sum
  std::vector<double> work_;   // columns while they are made orthonormal
};

}  // namespace nf
