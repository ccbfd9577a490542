// The widths of waterfill with their costs and thresholds for sums of a given order.
#pragma once

#include <span>

#include "codec/water_level.h"
#include "neuron_fabric/codec.h"

namespace nf {

// Widths of 2 to 10 bits. With `zero` also width 0: super-groups may be left out, and the costs of
// the other widths include the unit and the scales.
std::span<const Rung> width_ladder(SumOrder order, bool zero);

}  // namespace nf
