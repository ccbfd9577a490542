// The scalar reference of marsit, from docs/codecs/marsit.md.
#include "codec/codes.h"
#include "codec/marsit/marsit_kernels.h"

namespace nf {
namespace {

void merge(const MarsitChoice& choice, const std::byte* first, const std::byte* second,
           std::size_t groups, std::byte* out) {
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t at = g * pack_bytes(1);
    std::uint32_t ours[kPack];
    std::uint32_t theirs[kPack];
    unpack_codes(first + at, 1, ours);
    unpack_codes(second + at, 1, theirs);
    const DrawKey key(choice.draws, choice.block + g * kPack / kDrawBlock);
    for (std::size_t i = 0; i < kPack; ++i) {
      const std::size_t e = (g * kPack + i) % kDrawBlock;
      if (draw16(key, static_cast<std::uint32_t>(e)) >= choice.threshold) ours[i] = theirs[i];
    }
    pack_codes(ours, 1, out + at);
  }
}

constexpr MarsitKernels kReference = {merge};

}  // namespace

const MarsitKernels& marsit_reference() { return kReference; }

}  // namespace nf
