// How large a gradient is and whether it is sound: one pass over every bucket of every step.
#pragma once

#include <cstdint>

#include "neuron_fabric/data_type.h"

namespace nf {

struct GradientNorm {
  double energy = 0;             // sum of squares of the finite values
  std::uint64_t non_finite = 0;  // values
};

// The same bits for the same values on every machine. Any thread may call.
GradientNorm gradient_norm(ConstValues values);

}  // namespace nf
