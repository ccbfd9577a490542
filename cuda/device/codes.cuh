// Codes in planes (codec/codes.h) on a device: four lanes share a pack of 32 codes, and lane q of
// them holds elements 8 q to 8 q + 7. All lanes of a warp have the same width, so branches on it do
// not diverge.
#pragma once

#include <cstdint>

#include "codec/codes.h"

namespace nf::device {

inline constexpr unsigned kLaneCodes = 8;
inline constexpr unsigned kPackLanes = kPack / kLaneCodes;

// The codes of a lane, two per word: elements 0 and 2, 1 and 3, 4 and 6, 5 and 7. Codes add by
// words, and two masks separate four bytes of a plane.
inline constexpr unsigned kCodePairs = kLaneCodes / 2;
using CodePairs = std::uint32_t[kCodePairs];

inline constexpr std::uint32_t kBothHalves = 0x00010001u;

// The element in the lower half of word `w`; the upper half holds the element two later.
__device__ constexpr unsigned first_of_pair(unsigned w) { return w / 2 * 4 + w % 2; }

__device__ constexpr std::uint32_t code_of(const CodePairs& pairs, unsigned i) {
  return pairs[i / 4 * 2 + i % 2] >> (i % 4 / 2 * 16) & 0xffff;
}

__device__ constexpr void add_code(unsigned i, std::uint32_t code, CodePairs& pairs) {
  pairs[i / 4 * 2 + i % 2] += code << (i % 4 / 2 * 16);
}

// Adds codes of one bit, element i in bit i, shifted left by `shift`.
__device__ inline void add_bits(std::uint32_t byte, unsigned shift, CodePairs& pairs) {
  const std::uint32_t both = byte | byte << 14;  // elements 0 and 2 are 16 bits apart
#pragma unroll
  for (unsigned w = 0; w < kCodePairs; ++w) {
    pairs[w] += (both >> first_of_pair(w) & kBothHalves) << shift;
  }
}

// Adds this lane's codes of a pack of `width` bits, 1 to 16. `pack` is aligned to 4 bytes.
__device__ inline void add_lane(const std::byte* pack, unsigned width, unsigned q,
                                CodePairs& pairs) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(pack);
  unsigned shift = 0;
  if ((width & 16) != 0) {
#pragma unroll
    for (unsigned w = 0; w < kCodePairs; w += 2) {
      const std::uint32_t first = words[4 * q + w];
      const std::uint32_t second = words[4 * q + w + 1];
      pairs[w] += __byte_perm(first, second, 0x5410);
      pairs[w + 1] += __byte_perm(first, second, 0x7632);
    }
    words += 16;
    shift = 16;
  }
  // In planes of 8, 4 and 2 bits a lane reads two words; element i is in byte i of them.
#pragma unroll
  for (unsigned bits = 8; bits >= 2; bits /= 2) {
    if ((width & bits) == 0) continue;
    const std::uint32_t mask = ((1u << bits) - 1) * kBothHalves;
    const unsigned twos = bits / 2;  // pairs of words in the plane
    const unsigned at = 2 * (q % twos);
#pragma unroll
    for (unsigned w = 0; w < 2; ++w) {
      const std::uint32_t bytes = words[at + w] >> (q / twos * bits);
      pairs[2 * w] += (bytes & mask) << shift;
      pairs[2 * w + 1] += (bytes >> 8 & mask) << shift;
    }
    words += bits;
    shift += bits;
  }
  if ((width & 1) != 0) {
    add_bits(std::to_integer<std::uint32_t>(reinterpret_cast<const std::byte*>(words)[q]), shift,
             pairs);
  }
}

__device__ inline void unpack_lane(const std::byte* pack, unsigned width, unsigned q,
                                   std::uint32_t (&codes)[kLaneCodes]) {
  CodePairs pairs = {};
  add_lane(pack, width, q, pairs);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] = code_of(pairs, i);
}

// The `bits` bits at `shift` of four codes, one code per byte.
__device__ inline std::uint32_t spread(const std::uint32_t* pairs, unsigned shift, unsigned bits) {
  const std::uint32_t mask = ((1u << bits) - 1) * kBothHalves;
  return (pairs[0] >> shift & mask) | (pairs[1] >> shift & mask) << 8;
}

// Writes this lane's codes to a pack if `is_written`; codes are below 2^width. All lanes of the
// warp take part.
__device__ inline void pack_lane(const CodePairs& pairs, unsigned width, unsigned q,
                                 bool is_written, std::byte* pack) {
  constexpr unsigned kAll = 0xffffffffu;
  auto* words = reinterpret_cast<std::uint32_t*>(pack);
  unsigned shift = 0;
  if ((width & 16) != 0) {
#pragma unroll
    for (unsigned w = 0; w < kCodePairs; w += 2) {
      if (!is_written) continue;
      words[4 * q + w] = __byte_perm(pairs[w], pairs[w + 1], 0x5410);
      words[4 * q + w + 1] = __byte_perm(pairs[w], pairs[w + 1], 0x7632);
    }
    words += 16;
    shift = 16;
  }
  if ((width & 8) != 0) {
    if (is_written) {
      words[2 * q] = spread(pairs, shift, 8);
      words[2 * q + 1] = spread(pairs + 2, shift, 8);
    }
    words += 8;
    shift += 8;
  }
  // Lanes q and q + 2 hold the nibbles of the same bytes; each assembles one of the two words.
  const bool is_upper = q >= 2;
  if ((width & 4) != 0) {
    const unsigned at = is_upper ? 4 : 0;
    const std::uint32_t low = spread(pairs, shift, 4) << at;
    const std::uint32_t high = spread(pairs + 2, shift, 4) << at;
    const std::uint32_t other = __shfl_xor_sync(kAll, is_upper ? low : high, 2);
    if (is_written) words[2 * (q % 2) + q / 2] = (is_upper ? high : low) | other;
    words += 4;
    shift += 4;
  }
  if ((width & 2) != 0) {
    const std::uint32_t low = spread(pairs, shift, 2) << (2 * q);
    const std::uint32_t high = spread(pairs + 2, shift, 2) << (2 * q);
    std::uint32_t word = is_upper ? high : low;
    word |= __shfl_xor_sync(kAll, is_upper ? low : high, 2);
    word |= __shfl_xor_sync(kAll, word, 1);
    if (is_written && q % 2 == 0) words[q / 2] = word;
    words += 2;
    shift += 2;
  }
  if ((width & 1) != 0 && is_written) {
    std::uint32_t bits = 0;
#pragma unroll
    for (unsigned w = 0; w < kCodePairs; ++w) {
      bits |= (pairs[w] >> shift & kBothHalves) << first_of_pair(w);
    }
    reinterpret_cast<std::byte*>(words)[q] = static_cast<std::byte>(bits | bits >> 14);
  }
}

__device__ inline void pack_lane(const std::uint32_t (&codes)[kLaneCodes], unsigned width,
                                 unsigned q, bool is_written, std::byte* pack) {
  CodePairs pairs = {};
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) add_code(i, codes[i], pairs);
  pack_lane(pairs, width, q, is_written, pack);
}

}  // namespace nf::device
