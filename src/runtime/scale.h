// Multiplies values by a factor in place, with the same bits as PyTorch's mul_: 16-bit values are
// multiplied as FP32 and rounded once.
#pragma once

#include "neuron_fabric/data_type.h"

namespace nf {

void scale(Values values, float factor);

}  // namespace nf
