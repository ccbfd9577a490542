#include "cuda/collective/low_rank_plan.h"

#include <algorithm>

#include "cuda/base/upload.h"
#include "cuda/codec/device_tables.h"

namespace nf::cuda {
namespace {

// Allocates consecutive aligned arrays.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(std::size_t count) {
    auto* array = reinterpret_cast<T*>(base_ + at_);
    at_ += aligned(count * sizeof(T));
    return array;
  }
  std::size_t size() const { return at_; }

 private:
  std::byte* const base_;
  std::size_t at_ = 0;
};

// The factors of one gradient, or its values in FP32 if it is sent unfactored.
LowRankMatrix allocate_one(Arena& arena, const Gradient& gradient,
                           const LowRankMemory::State* state, std::uint32_t terms) {
  if (state == nullptr) return {.first = arena.take<float>(gradient.values.count)};
  return {.basis = state->values(LowRankMemory::kBasis),
          .error = state->values(LowRankMemory::kError),
          .first = arena.take<float>(terms * state->rows),
          .second = arena.take<float>(terms * state->cols),
          .own = arena.take<float>(terms * state->cols),
          .work = arena.take<double>(terms * std::max(state->rows, state->cols)),
          .parameter = gradient.parameter,
          .rows = static_cast<std::uint32_t>(state->rows),
          .cols = static_cast<std::uint32_t>(state->cols)};
}

// All tiles of `rows` x `cols`; 0 means all rows or columns.
std::vector<LowRankTile> tiles_of(std::span<const LowRankMatrix> matrices, std::uint32_t rows,
                                  std::uint32_t cols) {
  std::vector<LowRankTile> tiles;
  for (std::uint32_t i = 0; i < matrices.size(); ++i) {
    const LowRankMatrix& matrix = matrices[i];
    for (std::uint64_t row = 0; row < matrix.rows; row += rows == 0 ? matrix.rows : rows) {
      for (std::uint64_t col = 0; col < matrix.cols; col += cols == 0 ? matrix.cols : cols) {
        tiles.push_back({i, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(col)});
      }
    }
  }
  return tiles;
}

}  // namespace

std::size_t LowRankPlan::factor_bytes(const Request& request) {
  Arena arena(nullptr);
  for (std::size_t i = 0; i < request.gradients.size(); ++i) {
    allocate_one(arena, request.gradients[i], request.states[i], request.terms);
  }
  return arena.size();
}

Expected<std::unique_ptr<LowRankPlan>> LowRankPlan::create(const Request& request,
                                                           DeviceAllocator& allocator,
                                                           cudaStream_t stream) {
  for (const Gradient& gradient : request.gradients) {
    if (gradient.values.type != request.gradients.front().values.type) {
      return Status(ErrorCode::kInvalidArgument,
                    "all gradients of a device all-reduce must have the same type");
    }
  }
  std::unique_ptr<LowRankPlan> plan(new LowRankPlan(allocator));
  plan->allocate(request);
  if (Status status = plan->upload(stream); !status.ok()) return status;
  return plan;
}

void LowRankPlan::add_plain(std::size_t gradient, float* wide) {
  const Values& values = gradients_[gradient].values;
  for (std::size_t first = 0; first < values.count; first += kPlainPiece) {
    plain_.push_back({.wide = wide + first,
                      .count = static_cast<std::uint32_t>(
                          std::min<std::size_t>(kPlainPiece, values.count - first))});
    plain_sources_.push_back(
        {.gradient = static_cast<std::uint32_t>(gradient), .offset = first * size_of(values.type)});
  }
}

void LowRankPlan::set_values(std::span<const Gradient> gradients) {
  gradients_.assign(gradients.begin(), gradients.end());
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    matrices_[i].values = gradients_[matrix_sources_[i]].values.data;
  }
  for (std::size_t i = 0; i < plain_.size(); ++i) {
    const PieceSource& source = plain_sources_[i];
    plain_[i].values =
        static_cast<std::byte*>(gradients_[source.gradient].values.data) + source.offset;
  }
}

void LowRankPlan::allocate(const Request& request) {
  key_ = LayoutKey(request.gradients);
  gradients_.assign(request.gradients.begin(), request.gradients.end());
  factors_ = request.factors;
  tables_.type = gradients_.front().values.type;
  tables_.terms = request.terms;
  tables_.seed = request.seed;
  Arena arena(request.factors);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const Gradient& gradient = gradients_[i];
    const LowRankMemory::State* state = request.states[i];
    const LowRankMatrix made = allocate_one(arena, gradient, state, request.terms);
    const auto factor = [&](float* values, std::size_t count) {
      return Gradient{.parameter = gradient.parameter,
                      .values = Values(values, count, DataType::kFloat32)};
    };
    if (state == nullptr) {
      add_plain(i, made.first);
      first_.push_back(factor(made.first, gradient.values.count));
      continue;
    }
    first_.push_back(factor(made.first, request.terms * state->rows));
    second_.push_back(factor(made.second, request.terms * state->cols));
    matrices_.push_back(made);
    matrix_sources_.push_back(i);
  }
  set_values(request.gradients);
}

Status LowRankPlan::upload(cudaStream_t stream) {
  const std::vector<LowRankTile> rows = tiles_of(matrices_, kRowTile, 0);
  const std::vector<LowRankTile> columns = tiles_of(matrices_, 0, kColumnTile);
  const std::vector<LowRankTile> results = tiles_of(matrices_, kResultRows, kResultColumns);
  tables_.matrix_count = static_cast<std::uint32_t>(matrices_.size());
  tables_.row_count = static_cast<std::uint32_t>(rows.size());
  tables_.column_count = static_cast<std::uint32_t>(columns.size());
  tables_.result_count = static_cast<std::uint32_t>(results.size());
  tables_.plain_count = static_cast<std::uint32_t>(plain_.size());
  DeviceTables tables;
  tables.add(matrices_, &matrix_table_);
  tables.add(rows, &tables_.rows);
  tables.add(columns, &tables_.columns);
  tables.add(results, &tables_.results);
  tables.add(plain_, &plain_table_);
  tables.reserve(matrices_.size(), &tables_.is_used);
  tables.reserve(matrices_.size(), &tables_.is_finite);
  tables.reserve(1, &tables_.has_nonfinite);
  NF_RETURN_IF_ERROR(tables.upload(table_memory_, stream));
  tables_.matrices = matrix_table_;
  tables_.plain = plain_table_;
  return {};
}

Status LowRankPlan::move_to(std::span<const Gradient> gradients, cudaStream_t stream) {
  const auto is_at_same = [](const Gradient& a, const Gradient& b) {
    return a.values.data == b.values.data;
  };
  if (std::ranges::equal(gradients, gradients_, is_at_same)) return {};
  set_values(gradients);
  Status status = cuda::upload(matrix_table_, std::as_bytes(std::span(matrices_)), stream);
  if (status.ok()) status = cuda::upload(plain_table_, std::as_bytes(std::span(plain_)), stream);
  if (!status.ok()) gradients_.clear();  // the tables are unknown
  return status;
}

bool LowRankPlan::is_current(const Request& request) const {
  if (factors_ != request.factors) return false;
  auto matrix = matrices_.begin();
  for (const LowRankMemory::State* state : request.states) {
    if (state == nullptr) continue;
    if (matrix == matrices_.end() || matrix->basis != state->values(LowRankMemory::kBasis) ||
        matrix->error != state->values(LowRankMemory::kError) || matrix->rows != state->rows ||
        matrix->cols != state->cols) {
      return false;
    }
    ++matrix;
  }
  return matrix == matrices_.end();
}

}  // namespace nf::cuda
