// Whether values hold neither NaN nor infinity, as their own type has them.
#pragma once

#include "neuron_fabric/data_type.h"

namespace nf {

bool all_finite(ConstValues values);

}  // namespace nf
