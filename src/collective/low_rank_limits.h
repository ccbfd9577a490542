// The constants that determine powersgd's bits (docs/codecs/powersgd.md), on CPU and GPU.
#pragma once

#include <cstdint>

namespace nf {

inline constexpr std::uint32_t kMaxTerms = 64;
// A sum along a row adds element i to lane i modulo kSumLanes, then adds the lanes pairwise.
inline constexpr std::uint32_t kSumLanes = 16;
// If the part of a column that is orthogonal to the columns before it is smaller than this,
// relative to the column, it counts as dependent on them. Well below the precision of FP32, so that
// only exact dependence counts, and well above that of FP64.
inline constexpr double kDependenceTolerance = 1e-9;
// Larger magnitudes are treated like Inf: up to here no product of factors overflows, for any
// possible shape and number of ranks.
inline constexpr float kMaxMagnitude = 0x1p100f;

}  // namespace nf
