// The loop of marsit over the bits of two messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "codec/isa.h"

namespace nf {

// What decides between two bits that differ: the first one's is taken where the element's draw is
// below `threshold`.
struct MarsitChoice {
  DrawStream draws;
  std::uint64_t block = 0;  // of draws, of the first element
  std::uint32_t threshold = 0;
};

struct MarsitKernels {
  // The bits of `groups` groups of 32 elements each. `out` may be `first` or `second`.
  void (*merge)(const MarsitChoice& choice, const std::byte* first, const std::byte* second,
                std::size_t groups, std::byte* out);
};

const MarsitKernels& marsit_reference();

// Precondition: isa is one of available_isas() other than kScalar.
const MarsitKernels& marsit_simd(Isa isa);

}  // namespace nf
