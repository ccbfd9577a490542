#include "nf/quality/felt_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "nf/support/npy.h"

namespace nf::cli {
namespace {

constexpr std::size_t kSuperGroup = 256;
// v counts at least this share of its super-group's mean: an optimizer limits its steps, too.
constexpr double kFloor = 0.01;

// Writes 1 / v of one super-group and returns how many elements have a weight.
std::size_t invert(std::span<const float> v, std::span<float> weights) {
  const double mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  if (mean == 0) return 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    weights[i] = static_cast<float>(1 / std::max(double{v[i]}, kFloor * mean));
  }
  return v.size();
}

}  // namespace

Expected<std::vector<float>> read_felt_weights(const std::string& path,
                                               std::span<const ParameterShape> parameters,
                                               std::uint32_t ranks) {
  const auto bad = [&](std::string_view reason) {
    return Status(ErrorCode::kBadConfig, fmt::format("--second-moment {}: {}", path, reason));
  };
  Expected<NpyArray> array = NpyArray::open(path);
  if (!array) return array.status();
  std::size_t elements = 0;
  for (const ParameterShape& parameter : parameters) elements += parameter.count;
  if (array->rows() != 1 || array->columns() < elements) {
    return bad(fmt::format("the shape must be (1, {}), not ({}, {})", elements, array->rows(),
                           array->columns()));
  }
  const std::span<const float> v = array->row(0).first(elements);
  if (!std::ranges::all_of(v, [](float one) { return std::isfinite(one) && one >= 0; })) {
    return bad("a value is negative or not finite");
  }
  std::vector<float> weights(elements);
  std::size_t counted = 0;
  std::size_t start = 0;
  for (const ParameterShape& parameter : parameters) {
    for (std::size_t first = 0; first < parameter.count; first += kSuperGroup) {
      const std::size_t count = std::min(kSuperGroup, parameter.count - first);
      counted +=
          invert(v.subspan(start + first, count), std::span(weights).subspan(start + first, count));
    }
    start += parameter.count;
  }
  if (counted == 0) return bad("all values are 0");
  const auto scale = static_cast<float>(1.0 / (static_cast<double>(counted) * ranks * ranks));
  for (float& weight : weights) weight *= scale;
  return weights;
}

}  // namespace nf::cli
