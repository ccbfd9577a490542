// The kernel of marsit that merges the bits of two messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "codec/isa.h"

namespace nf {

// Decides between two bits: the first message's bit is chosen if the element's draw is below
// `threshold`.
struct MarsitChoice {
  DrawStream draws;
  std::uint64_t block = 0;  // the block of draws of the first element
  std::uint32_t threshold = 0;
};

struct MarsitKernels {
  // Merges `packs` packs of bits. `out` may be `first` or `second`.
  void (*merge)(const MarsitChoice& choice, const std::byte* first, const std::byte* second,
                std::size_t packs, std::byte* out);
};

const MarsitKernels& marsit_reference();

// Precondition: isa is one of available_isas() other than kScalar.
const MarsitKernels& marsit_simd(Isa isa);

}  // namespace nf
