// Selects the form of the codecs: the scalar reference or one of the vector forms. All forms write
// the same bytes. The default is the best form that this CPU supports; NF_FORCE_ISA overrides it.
#pragma once

#include <span>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

enum class Isa { kScalar, kAvx2, kAvx512, kNeon };

// "scalar", "avx2", "avx512", "neon".
std::string_view to_string(Isa isa);

// The forms that this build contains and this CPU supports, best first. kScalar is always the last.
std::span<const Isa> available_isas();

// The ISA of available_isas() with this name. Fails with kUnsupported and lists the available ones.
Expected<Isa> find_isa(std::string_view name);

// The form of new codecs: the last argument of set_isa(), otherwise NF_FORCE_ISA, otherwise the
// best form. Fails if NF_FORCE_ISA names a form that is not available.
Expected<Isa> active_isa();

// For tests and benchmarks. Do not call it while other threads create codecs.
void set_isa(Isa isa);

}  // namespace nf
