// Whether the values contain neither NaN nor Inf.
#pragma once

#include "neuron_fabric/data_type.h"

namespace nf {

bool all_finite(ConstValues values);

}  // namespace nf
