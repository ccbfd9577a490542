// The norm of a gradient and its number of NaN and Inf, in one pass.
#pragma once

#include <cstdint>

#include "neuron_fabric/data_type.h"

namespace nf {

struct GradientNorm {
  double energy = 0;             // sum of squares of the finite values
  std::uint64_t non_finite = 0;  // values
};

// The same bits for the same values on every CPU. Thread-safe.
GradientNorm gradient_norm(ConstValues values);

}  // namespace nf
