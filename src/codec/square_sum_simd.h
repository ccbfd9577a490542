#pragma once

#include "codec/square_sum.h"

namespace nf {

// The vector form. Precondition: isa is one of available_isas() other than kScalar.
SquareSum square_sum_simd(Isa isa);

}  // namespace nf
