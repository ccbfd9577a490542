// The numbers that decide powersgd's bits (docs/codecs/powersgd.md), for every machine that makes
// them.
#pragma once

#include <cstdint>

namespace nf {

inline constexpr std::uint32_t kMostTerms = 64;
// Sums along a row have one lane an element modulo so many, and are added in halves.
inline constexpr std::uint32_t kSumLanes = 16;
// A column of which less than this is left beside the columns before it depends on them. Well below
// the precision of FP32, so that only exact dependence counts, and well above that of FP64.
inline constexpr double kDependent = 1e-9;
// Greater values count as not finite: up to here no product of factors overflows, for any shape and
// number of ranks that can be.
inline constexpr float kGreatestUsable = 0x1p100f;

}  // namespace nf
