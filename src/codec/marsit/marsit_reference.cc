// The scalar reference of marsit, from docs/codecs/marsit.md.
#include "codec/codes.h"
#include "codec/marsit/marsit_kernels.h"

namespace nf {
namespace {

void merge(const MarsitChoice& choice, const std::byte* first, const std::byte* second,
           std::size_t packs, std::byte* out) {
  for (std::size_t p = 0; p < packs; ++p) {
    const std::size_t at = p * pack_bytes(1);
    std::uint32_t ours[kPack];
    std::uint32_t theirs[kPack];
    unpack_codes(first + at, 1, ours);
    unpack_codes(second + at, 1, theirs);
    const DrawKey key(choice.draws, choice.block + p * kPack / kDrawBlock);
    for (std::size_t i = 0; i < kPack; ++i) {
      const std::size_t e = (p * kPack + i) % kDrawBlock;
      if (draw16(key, static_cast<std::uint32_t>(e)) >= choice.threshold) ours[i] = theirs[i];
    }
    pack_codes(ours, 1, out + at);
  }
}

constexpr MarsitKernels kReference = {merge};

}  // namespace

const MarsitKernels& marsit_reference() { return kReference; }

}  // namespace nf
