// Values times a factor, in place, with the bits that PyTorch's mul_ would give: 16-bit values are
// multiplied as FP32 and rounded once.
#pragma once

#include "neuron_fabric/data_type.h"

namespace nf {

void scale(Values values, float factor);

}  // namespace nf
