#pragma once

#include "codec/convert.h"

namespace nf {

// The vector form. Precondition: isa is one of available_isas() other than kScalar.
const ConvertKernels& convert_kernels_simd(Isa isa);

}  // namespace nf
