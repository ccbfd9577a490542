// Sums of squares in double precision. All forms return the same bits, because squares of FP32
// values are exact in double precision and the order of additions is fixed.
#pragma once

#include <cstddef>

#include "codec/isa.h"

namespace nf {

// The number of running sums; element i is added to sum i % kSquareLanes. In the end the sums are
// folded in halves (i + 16 to i, then i + 8, ...).
inline constexpr std::size_t kSquareLanes = 32;

// The sum of the squares of `count` values, a multiple of kSquareLanes. It is finite if and only if
// all values are finite: squares of finite FP32 values do not overflow.
using SquareSum = double (*)(const float* values, std::size_t count);

SquareSum square_sum(Isa isa);

}  // namespace nf
