// Vector form of merging marsit's bits.
#include "codec/marsit/marsit_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/marsit/marsit_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "codec/codes.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"
#include "codec/simd/select.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

constexpr std::size_t kDrawPacks = kDrawBlock / kPack;

// A bit mask of the lanes below `limit`, lane 0 in bit 0. Lanes and limit are at most 2^16.
HWY_INLINE std::uint32_t lanes_below(VU v, VU limit) {
  // The sign bit of the difference.
  return bit_of_lanes(hn::Sub(v, limit), set_u(0x80000000u));
}

// Merges the packs of one block of draws, or the first ones of it.
HWY_INLINE void merge_block(DrawKey key, VU limit, const std::byte* first, const std::byte* second,
                            std::size_t packs, std::byte* out) {
  constexpr std::size_t kHalf = kPackVectors / 2;
  DrawWords words(key, DrawWords::strides());
  for (std::size_t p = 0; p < packs; ++p) {
    VU word[kHalf];
    words.next(word);
    std::uint32_t chosen = 0;  // elements that take the first message's bit
    for (std::size_t v = 0; v < kHalf; ++v) {
      chosen |= lanes_below(hn::And(word[v], set_u(0xffff)), limit) << (v * kLanes);
      chosen |= lanes_below(hn::ShiftRight<16>(word[v]), limit) << (16 + v * kLanes);
    }
    std::uint32_t ours;
    std::uint32_t theirs;
    std::memcpy(&ours, first + p * pack_bytes(1), sizeof ours);
    std::memcpy(&theirs, second + p * pack_bytes(1), sizeof theirs);
    const std::uint32_t merged = theirs ^ ((ours ^ theirs) & chosen);
    std::memcpy(out + p * pack_bytes(1), &merged, sizeof merged);
  }
}

void merge(const MarsitChoice& choice, const std::byte* first, const std::byte* second,
           std::size_t packs, std::byte* out) {
  const VU limit = set_u(choice.threshold);
  for (std::size_t p = 0; p < packs; p += kDrawPacks) {
    const DrawKey key(choice.draws, choice.block + p / kDrawPacks);
    const std::size_t at = p * pack_bytes(1);
    merge_block(key, limit, first + at, second + at, std::min(kDrawPacks, packs - p), out + at);
  }
}

constexpr MarsitKernels kMarsitTable = {merge};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const MarsitKernels& marsit_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kMarsitTable); }

}  // namespace nf
#endif
