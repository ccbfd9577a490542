#include "nf/bench/all_reduce_values.h"

#include <algorithm>
#include <array>

#include "base/float16.h"
#include "base/random.h"

namespace nf::cli {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kPart = 16 * GradientMixture::kSuperGroup;

float value_at(ConstValues values, std::size_t i) {
  if (values.type == DataType::kFloat32) return static_cast<const float*>(values.data)[i];
  return bfloat16_to_float(static_cast<const std::uint16_t*>(values.data)[i]);
}

void set_value(Values values, std::size_t i, float value) {
  if (values.type == DataType::kFloat32) {
    static_cast<float*>(values.data)[i] = value;
  } else {
    static_cast<std::uint16_t*>(values.data)[i] = float_to_bfloat16(value);
  }
}

float rounded(float value, DataType type) {
  return type == DataType::kFloat32 ? value : bfloat16_to_float(float_to_bfloat16(value));
}

int integer(std::uint32_t rank, std::size_t i) {
  return static_cast<int>(mix64(i * kGolden64 + rank) % 7) - 3;
}

}  // namespace

BenchGradient::BenchGradient(std::uint32_t rank, std::uint32_t ranks, std::size_t count)
    : mixture_{.seed = kSeed}, ranks_(ranks), own_(count) {
  mixture_.fill(rank, 0, own_);
}

void BenchGradient::put(Values out) const {
  for (std::size_t i = 0; i < out.count; ++i) set_value(out, i, own_[i]);
}

double BenchGradient::vnmse(ConstValues sum) {
  if (exact_.empty() || exact_type_ != sum.type) compute_exact(sum.type);
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < sum.count; ++i) {
    const double difference = value_at(sum, i) - exact_[i];
    error += difference * difference;
    energy += exact_[i] * exact_[i];
  }
  return error == 0 ? 0 : error / energy;
}

void BenchGradient::compute_exact(DataType type) {
  exact_.assign(own_.size(), 0);
  exact_type_ = type;
  std::array<float, kPart> part{};
  for (std::size_t first = 0; first < exact_.size(); first += part.size()) {
    const auto values = std::span(part).first(std::min(part.size(), exact_.size() - first));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      mixture_.fill(rank, first, values);
      for (std::size_t i = 0; i < values.size(); ++i) exact_[first + i] += rounded(values[i], type);
    }
  }
}

void fill_integers(std::uint32_t rank, Values out) {
  for (std::size_t i = 0; i < out.count; ++i) {
    set_value(out, i, static_cast<float>(integer(rank, i)));
  }
}

std::uint64_t count_wrong_integers(std::uint32_t ranks, ConstValues sum) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < sum.count; ++i) {
    int exact = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) exact += integer(rank, i);
    wrong += value_at(sum, i) == static_cast<float>(exact) ? 0 : 1;
  }
  return wrong;
}

}  // namespace nf::cli
