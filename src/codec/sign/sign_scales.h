// The start of a message of g_binary, g_ternary and marsit: the scales and the zeros after them.
#pragma once

#include <cstddef>

#include "neuron_fabric/status.h"

namespace nf {

// Writes the zeros between the scales and the codes of `count` values.
void clear_sign_gap(std::size_t count, std::byte* wire);

// Rejects negative and infinite scales, NaNs other than that of sign_format.h, and non-zero bytes
// after the scales.
Status validate_sign_scales(std::size_t count, const std::byte* wire);

}  // namespace nf
