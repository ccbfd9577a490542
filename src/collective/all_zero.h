#pragma once

#include <algorithm>
#include <span>

namespace nf {

// Whether every value is 0 or -0.
inline bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

}  // namespace nf
