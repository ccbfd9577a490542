// The widths that waterfill chooses from, with what they cost and gain in a sum of a given order.
#pragma once

#include <span>

#include "codec/water_level.h"
#include "neuron_fabric/codec.h"

namespace nf {

// From 2 to 10 bits; with `zero`, super-groups may also be left out, and what a message has of one
// that is not (its unit and scales) counts among the costs.
std::span<const Rung> width_ladder(SumOrder order, bool zero);

}  // namespace nf
