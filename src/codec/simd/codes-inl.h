// Vector form of codec/codes.h.
#if defined(NF_CODEC_SIMD_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_CODES_INL_H_
#undef NF_CODEC_SIMD_CODES_INL_H_
#else
#define NF_CODEC_SIMD_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// Writes a pack of codes of `width` bits. Ignores bits of the lanes from 18 on. Returns the end of
// the output.
HWY_INLINE std::uint8_t* pack_codes(const VU (&c)[kPackVectors], unsigned width, std::uint8_t* to) {
  constexpr std::size_t kHalf = kPackVectors / 2;
  VU rest[kPackVectors];
  for (std::size_t v = 0; v < kPackVectors; ++v) rest[v] = c[v];
  if ((width & 8) != 0) {
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      store_low_bytes(rest[v], to + v * kLanes);
      rest[v] = hn::ShiftRight<8>(rest[v]);
    }
    to += 32;
  }
  if ((width & 4) != 0) {
    const VU low = set_u(15);
    for (std::size_t v = 0; v < kHalf; ++v) {
      const VU here = (width & 3) != 0 ? hn::And(rest[v], low) : rest[v];
      const VU both = hn::Or(here, hn::ShiftLeft<4>(rest[v + kHalf]));
      store_low_bytes(both, to + v * kLanes);
    }
    to += 16;
    if ((width & 3) != 0) {
      for (std::size_t v = 0; v < kPackVectors; ++v) rest[v] = hn::ShiftRight<4>(rest[v]);
    }
  }
  if ((width & 2) != 0) {
    const VU low = set_u(3);
    if constexpr (kLanes == 16) {
      const VU both = hn::Or(hn::And(rest[0], low), hn::ShiftLeft<4>(hn::And(rest[1], low)));
      std::uint8_t bytes[16];
      store_low_bytes(both, bytes);
      std::uint64_t halves[2];
      std::memcpy(halves, bytes, sizeof halves);
      const std::uint64_t merged = halves[0] | halves[1] << 2;
      std::memcpy(to, &merged, sizeof merged);
    } else {
      constexpr std::size_t kQuarter = kPackVectors / 4;
      for (std::size_t v = 0; v < kQuarter; ++v) {
        const VU a = hn::And(rest[v], low);
        const VU b = hn::ShiftLeft<2>(hn::And(rest[v + kQuarter], low));
        const VU e = hn::ShiftLeft<4>(hn::And(rest[v + 2 * kQuarter], low));
        const VU f = hn::ShiftLeft<6>(rest[v + 3 * kQuarter]);
        store_low_bytes(hn::Or(hn::Or(a, b), hn::Or(e, f)), to + v * kLanes);
      }
    }
    to += 8;
    if ((width & 1) != 0) {
      for (std::size_t v = 0; v < kPackVectors; ++v) rest[v] = hn::ShiftRight<2>(rest[v]);
    }
  }
  if ((width & 1) != 0) {
    std::uint32_t word = 0;
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      word |= bit_of_lanes(rest[v], set_u(1)) << (v * kLanes);
    }
    std::memcpy(to, &word, sizeof word);
    to += 4;
  }
  return to;
}

// Reads a pack of codes. Returns the end of the input.
HWY_INLINE const std::uint8_t* unpack_codes(const std::uint8_t* from, unsigned width,
                                            VU (&c)[kPackVectors]) {
  constexpr std::size_t kHalf = kPackVectors / 2;
  unsigned shift = 0;
  for (std::size_t v = 0; v < kPackVectors; ++v) c[v] = hn::Zero(DU());
  if ((width & 8) != 0) {
    for (std::size_t v = 0; v < kPackVectors; ++v) c[v] = load_bytes(from + v * kLanes);
    from += 32;
    shift = 8;
  }
  if ((width & 4) != 0) {
    for (std::size_t v = 0; v < kHalf; ++v) {
      const VU both = load_bytes(from + v * kLanes);
      c[v] = hn::Or(c[v], hn::ShiftLeftSame(hn::And(both, set_u(15)), static_cast<int>(shift)));
      c[v + kHalf] =
          hn::Or(c[v + kHalf], hn::ShiftLeftSame(hn::ShiftRight<4>(both), static_cast<int>(shift)));
    }
    from += 16;
    shift += 4;
  }
  if ((width & 2) != 0) {
    const VU low = set_u(3);
    if constexpr (kLanes == 16) {
      std::uint64_t merged;
      std::memcpy(&merged, from, sizeof merged);
      const std::uint64_t halves[2] = {merged, merged >> 2};
      std::uint8_t bytes[16];
      std::memcpy(bytes, halves, sizeof bytes);
      const VU both = load_bytes(bytes);
      c[0] = hn::Or(c[0], hn::ShiftLeftSame(hn::And(both, low), static_cast<int>(shift)));
      c[1] = hn::Or(
          c[1], hn::ShiftLeftSame(hn::And(hn::ShiftRight<4>(both), low), static_cast<int>(shift)));
    } else {
      constexpr std::size_t kQuarter = kPackVectors / 4;
      for (std::size_t v = 0; v < kQuarter; ++v) {
        const VU all = load_bytes(from + v * kLanes);
        const VU parts[4] = {hn::And(all, low), hn::And(hn::ShiftRight<2>(all), low),
                             hn::And(hn::ShiftRight<4>(all), low), hn::ShiftRight<6>(all)};
        for (std::size_t q = 0; q < 4; ++q) {
          c[v + q * kQuarter] =
              hn::Or(c[v + q * kQuarter], hn::ShiftLeftSame(parts[q], static_cast<int>(shift)));
        }
      }
    }
    from += 8;
    shift += 2;
  }
  if ((width & 1) != 0) {
    std::uint32_t word;
    std::memcpy(&word, from, sizeof word);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      c[v] = add_where(c[v], word >> (v * kLanes), set_u(1u << shift));
    }
    from += 4;
  }
  return from;
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
