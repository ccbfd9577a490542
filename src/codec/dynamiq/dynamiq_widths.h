// Chooses the widths of super-groups by their energy: from the level up a super-group gets 4 bits,
// from 512/17 of the level up 8 bits, below it 2. The level is the lowest whose widths fit the
// budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "neuron_fabric/codec.h"

namespace nf {

// Fills in the widths of all `parameters` together, so that their codes take at most `code_bytes`.
// All get at least 2 bits, even if that is more.
void fit_dynamiq_widths(std::span<const WidthRequest> parameters, std::uint32_t ranks,
                        std::size_t code_bytes);

}  // namespace nf
