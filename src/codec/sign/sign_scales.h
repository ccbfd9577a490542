// The head of a message of g_binary, g_ternary and marsit: its scales, and the zeros behind them.
#pragma once

#include <cstddef>

#include "neuron_fabric/status.h"

namespace nf {

// Writes the zeros between the scales and the codes of `count` values.
void clear_sign_gap(std::size_t count, std::byte* wire);

// Refuses scales that are negative, infinite, or another NaN than the one of sign_format.h, and
// bytes behind them that are not zero.
Status validate_sign_scales(std::size_t count, const std::byte* wire);

}  // namespace nf
