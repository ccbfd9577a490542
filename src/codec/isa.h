// Which form of the codecs runs: the scalar reference or one of the vector forms. All write the
// same bytes. The best one this CPU has is taken, unless NF_FORCE_ISA names another.
#pragma once

#include <span>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

enum class Isa { kScalar, kAvx2, kAvx512, kNeon };

// "scalar", "avx2", "avx512", "neon".
std::string_view to_string(Isa isa);

// The forms that this build has and this CPU can run, best first; kScalar is always the last.
std::span<const Isa> available_isas();

// The one of available_isas() that `name` names. Fails with kUnsupported, listing them.
Expected<Isa> find_isa(std::string_view name);

// The form that codecs made from now on will use: what set_isa() said last, else NF_FORCE_ISA, else
// the best. Fails if NF_FORCE_ISA names one that cannot run here.
Expected<Isa> active_isa();

// For tests and benchmarks. Not to be called while other threads make codecs.
void set_isa(Isa isa);

}  // namespace nf
