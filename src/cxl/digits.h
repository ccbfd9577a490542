// Decodes gradient lines into digits.
#pragma once

#include "cxl/counters.h"
#include "cxl/mode.h"

namespace nf::cxl {

// Decodes a line of g_binary or g_ternary. Returns false if a byte does not encode five digits;
// `digits` is then undefined. Precondition: counts_digits(mode).
bool decode_digits(Mode mode, const Line& line, Digits& digits);

}  // namespace nf::cxl
