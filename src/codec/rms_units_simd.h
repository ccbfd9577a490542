#pragma once

#include "codec/rms_units.h"

namespace nf {

// The scalar reference.
const RmsUnits& rms_units_reference();
// The vector form. Precondition: isa is one of available_isas() other than kScalar.
const RmsUnits& rms_units_simd(Isa isa);

}  // namespace nf
