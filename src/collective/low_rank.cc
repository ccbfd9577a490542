// Every sum has a fixed order, however the compiler vectorises the loops: dot products use sixteen
// lanes that are added at the end, columns accumulate row by row, and products of factors term by
// term. Inner loops have fixed lengths so that compilers vectorise them.
#include "collective/low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/random.h"
#include "collective/all_zero.h"
#include "collective/low_rank_limits.h"

namespace nf {
namespace {

constexpr std::size_t kLanes = kSumLanes;
constexpr std::size_t kTileRows = 8;  // rows that reuse a cached part of a factor
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
T dot(const T* a, const T* b, std::size_t count) {
  T lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += a[i] * b[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Calls body(first column, width), with kLanes as a constant for all but the last columns.
template <typename Body>
void for_each_lane_block(std::size_t cols, Body body) {
  std::size_t col = 0;
  for (; col + kLanes <= cols; col += kLanes) {
    body(col, std::integral_constant<std::size_t, kLanes>());
  }
  for (; col < cols; ++col) body(col, std::integral_constant<std::size_t, 1>());
}

// Makes column `k` of `columns` a unit vector that is orthogonal to the columns before it, which
// are orthonormal or zero. If it depends on them, sets it to zero and returns false.
bool make_orthonormal(std::span<double> columns, std::size_t length, std::size_t k) {
  double* column = columns.data() + k * length;
  const double before = std::sqrt(dot(column, column, length));
  for (std::size_t j = 0; j < k; ++j) {
    const double* other = columns.data() + j * length;
    const double along = dot(other, column, length);
    for (std::size_t i = 0; i < length; ++i) column[i] -= along * other[i];
  }
  const double left = std::sqrt(dot(column, column, length));
  const bool independent = left > kDependenceTolerance * before;
  const double factor = independent ? 1 / left : 0;
  for (std::size_t i = 0; i < length; ++i) column[i] *= factor;
  return independent;
}

// sums[k] += the transpose of `matrix` times column k of `factor`, for every k.
void add_products(std::span<const float> matrix, std::size_t rows, std::size_t cols,
                  std::span<const float> factor, std::uint32_t terms, std::span<float> sums) {
  for (std::size_t start = 0; start < rows; start += kTileRows) {
    const std::size_t end = std::min(rows, start + kTileRows);
    for_each_lane_block(cols, [&](std::size_t col, auto width) {
      for (std::uint32_t k = 0; k < terms; ++k) {
        float sum[width];
        std::copy_n(&sums[k * cols + col], width(), sum);
        for (std::size_t row = start; row < end; ++row) {
          const float weight = factor[k * rows + row];
          const float* from = &matrix[row * cols + col];
          for (std::size_t lane = 0; lane < width; ++lane) sum[lane] += weight * from[lane];
        }
        std::copy_n(sum, width(), &sums[k * cols + col]);
      }
    });
  }
}

}  // namespace

std::size_t low_rank_values(std::size_t rows, std::size_t cols, std::uint32_t terms) {
  return std::min(rows * cols, terms * (rows + cols));
}

LowRank::LowRank(std::uint32_t terms, std::uint64_t seed, std::uint64_t parameter)
    : terms_(terms), seed_(seed), parameter_(parameter) {}

std::span<float> LowRank::first_factor(std::span<const float> values, std::size_t rows,
                                       float loss_scale) {
  const std::size_t cols = rows == 0 ? 0 : values.size() / rows;
  if (rows != rows_ || cols != cols_) reset(rows, cols);
  loss_scale_ = loss_scale;
  can_undo_ = false;
  if (dense_) {
    first_.assign(values.begin(), values.end());
    return first_;
  }
  is_error_added_ = !all_zero(values);
  const float error_scale = is_error_added_ ? loss_scale : 0;
  bool usable = true;
  for (std::size_t row = 0; row < rows; ++row) {
    float* to = &matrix_[row * cols];
    for (std::size_t col = 0; col < cols; ++col) {
      to[col] = values[row * cols + col] + error_scale * error_[row * cols + col];
      usable &= std::abs(to[col]) <= kMaxMagnitude;
    }
    for (std::uint32_t k = 0; k < terms_; ++k) {
      first_[k * rows + row] = dot<float>(to, &basis_[k * cols], cols);
    }
  }
  if (!usable) std::fill(first_.begin(), first_.end(), kNan);
  return first_;
}

std::span<float> LowRank::second_factor() {
  if (dense_) return {};
  if (!all_finite(first_)) {
    std::fill(second_.begin(), second_.end(), kNan);
    return second_;
  }
  std::copy(first_.begin(), first_.end(), work_.begin());
  for (std::uint32_t k = 0; k < terms_; ++k) make_orthonormal(work_, rows_, k);
  std::transform(work_.begin(), work_.begin() + static_cast<std::ptrdiff_t>(first_.size()),
                 first_.begin(), [](double v) { return static_cast<float>(v); });
  std::fill(second_.begin(), second_.end(), 0.0f);
  add_products(matrix_, rows_, cols_, first_, terms_, second_);
  own_ = second_;
  return second_;
}

void LowRank::finish(std::span<float> out) {
  if (dense_) {
    std::copy(first_.begin(), first_.end(), out.begin());
    return;
  }
  if (!all_finite(second_)) {
    std::fill(out.begin(), out.end(), kNan);
    return;
  }
  const float unscale = 1 / loss_scale_;
  for (std::size_t start = 0; start < rows_; start += kTileRows) {
    const std::size_t end = std::min(rows_, start + kTileRows);
    for_each_lane_block(cols_, [&](std::size_t col, auto width) {
      for (std::size_t row = start; row < end; ++row) {
        float sum[width] = {};
        float own[width] = {};
        for (std::uint32_t k = 0; k < terms_; ++k) {
          const float weight = first_[k * rows_ + row];
          const float* sums = &second_[k * cols_ + col];
          const float* owns = &own_[k * cols_ + col];
          for (std::size_t lane = 0; lane < width; ++lane) sum[lane] += weight * sums[lane];
          for (std::size_t lane = 0; lane < width; ++lane) own[lane] += weight * owns[lane];
        }
        // The new error replaces the matrix, so that the old one is available for undo().
        float* held = &matrix_[row * cols_ + col];
        for (std::size_t lane = 0; lane < width; ++lane) {
          held[lane] = unscale * (held[lane] - own[lane]);
        }
        std::copy_n(sum, width(), &out[row * cols_ + col]);
      }
    });
  }
  if (!is_error_added_) matrix_ = error_;
  std::swap(error_, matrix_);
  std::swap(basis_, last_basis_);
  renew_basis();
  can_undo_ = true;
}

void LowRank::undo() {
  if (!can_undo_) return;
  std::swap(error_, matrix_);
  std::swap(basis_, last_basis_);
  can_undo_ = false;
}

void LowRank::restore(std::size_t rows, std::size_t cols, std::span<const float> basis,
                      std::span<const float> error) {
  reset(rows, cols);
  basis_.assign(basis.begin(), basis.end());
  error_.assign(error.begin(), error.end());
}

void LowRank::reset(std::size_t rows, std::size_t cols) {
  rows_ = rows;
  cols_ = cols;
  dense_ = terms_ * (rows + cols) >= rows * cols;
  can_undo_ = false;
  const std::size_t count = dense_ ? 0 : rows * cols;
  error_.assign(count, 0.0f);
  matrix_.resize(count);
  first_.resize(dense_ ? 0 : terms_ * rows);
  second_.assign(dense_ ? 0 : terms_ * cols, 0.0f);
  basis_.resize(second_.size());
  last_basis_.resize(second_.size());
  work_.resize(std::max(first_.size(), second_.size()));
  if (!dense_) renew_basis();
}

// Orthonormal columns span the same space as the factor and keep the next first factor at the scale
// of the gradient. A zero column, as all are initially, would stay zero, so it is drawn at random.
void LowRank::renew_basis() {
  std::copy(second_.begin(), second_.end(), work_.begin());
  for (std::uint32_t k = 0; k < terms_; ++k) {
    if (make_orthonormal(work_, cols_, k)) continue;
    draw_column(k, std::span(work_).subspan(k * cols_, cols_));
    make_orthonormal(work_, cols_, k);
  }
  std::transform(work_.begin(), work_.begin() + static_cast<std::ptrdiff_t>(basis_.size()),
                 basis_.begin(), [](double v) { return static_cast<float>(v); });
}

// Uniform in (-1, 1): odd multiples of 2^-16.
void LowRank::draw_column(std::uint32_t term, std::span<double> column) const {
  const DrawStream stream(seed_, term, parameter_, kSharedEncoder, DrawPurpose::kLowRank);
  for (std::size_t start = 0; start < column.size(); start += kDrawBlock) {
    const DrawKey key(stream, start / kDrawBlock);
    const std::size_t held = std::min(kDrawBlock, column.size() - start);
    for (std::uint32_t i = 0; i < held; ++i) {
      column[start + i] = (2.0 * draw16(key, i) + 1) / 65536 - 1;
    }
  }
}

}  // namespace nf
