// From gradient lines to digits.
#pragma once

#include "cxl/counters.h"
#include "cxl/mode.h"

namespace nf::cxl {

// The digits of a line of g_binary or g_ternary. False where a byte is no five digits; `digits` is
// undefined then. Precondition: counts_digits(mode).
bool decode_digits(Mode mode, const Line& line, Digits& digits);

}  // namespace nf::cxl
