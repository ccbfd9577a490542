// The widths of rotated with their costs and thresholds for sums of a given order.
#pragma once

#include <span>

#include "codec/water_level.h"
#include "neuron_fabric/codec.h"

namespace nf {

// Widths of 1 to 8 bits, with `zero` also width 0 (WaterLevelFormat::ladder).
std::span<const Rung> rotated_ladder(SumOrder order, bool zero);

}  // namespace nf
