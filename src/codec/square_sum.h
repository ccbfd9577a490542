// Sums of squares in double precision, the same bits in every form: squares of FP32 values are
// exact there, and the sum has one order.
#pragma once

#include <cstddef>

#include "codec/isa.h"

namespace nf {

// Running sums, by element modulo kSquareLanes; in the end they are added in halves (i + 16 to i,
// then i + 8, ...).
inline constexpr std::size_t kSquareLanes = 32;

// Of `count` values, a multiple of kSquareLanes. Not finite where one of them is not: squares of
// finite values do not overflow.
using SquareSum = double (*)(const float* values, std::size_t count);

SquareSum square_sum(Isa isa);

}  // namespace nf
