// The statistics of whole super-groups.
#pragma once

#include "codec/isa.h"
#include "codec/super_group.h"

namespace nf {

struct SuperGroupKernels {
  void (*statistics)(const float* values, std::size_t super_groups, std::byte* out);
};

const SuperGroupKernels& super_group_kernels(Isa isa);
// Precondition: isa is one of available_isas() other than kScalar.
const SuperGroupKernels& super_group_simd(Isa isa);

}  // namespace nf
