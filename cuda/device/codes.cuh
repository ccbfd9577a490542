// Codes in planes (codec/codes.h) on a device: four lanes share a group of 32 codes, and lane q of
// them holds elements 8 q to 8 q + 7. Widths are the same for all lanes of a warp, so branches on
// them cost next to nothing.
#pragma once

#include <cstdint>

#include "codec/codes.h"

namespace nf::device {

inline constexpr unsigned kLaneCodes = 8;
inline constexpr unsigned kGroupLanes = kGroup / kLaneCodes;

// Reads this lane's codes of a group of `width` bits, 1 to 16, at a multiple of 4 bytes.
__device__ inline void unpack_lane(const std::byte* group, unsigned width, unsigned q,
                                   std::uint32_t (&codes)[kLaneCodes]) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(group);
  unsigned shift = 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] = 0;
  if ((width & 16) != 0) {
#pragma unroll
    for (unsigned w = 0; w < 4; ++w) {
      const std::uint32_t word = words[4 * q + w];
      codes[2 * w] = word & 0xffff;
      codes[2 * w + 1] = word >> 16;
    }
    words += 16;
    shift = 16;
  }
  // In planes of 8, 4 and 2 bits a lane reads two words, and element i lies in byte i of them.
#pragma unroll
  for (unsigned bits = 8; bits >= 2; bits /= 2) {
    if ((width & bits) == 0) continue;
    const unsigned pairs = bits / 2;  // of words in the plane
    const unsigned at = 2 * (q % pairs);
    const std::uint32_t low = words[at] >> (q / pairs * bits);
    const std::uint32_t high = words[at + 1] >> (q / pairs * bits);
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      codes[i] |= ((i < 4 ? low : high) >> (8 * (i % 4)) & ((1u << bits) - 1)) << shift;
    }
    words += bits;
    shift += bits;
  }
  if ((width & 1) != 0) {
    const auto byte = std::to_integer<std::uint32_t>(reinterpret_cast<const std::byte*>(words)[q]);
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] |= (byte >> i & 1) << shift;
  }
}

// Four codes of `bits` bits at `shift`, a byte each.
__device__ inline std::uint32_t spread(const std::uint32_t* codes, unsigned shift, unsigned bits) {
  std::uint32_t word = 0;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) word |= (codes[i] >> shift & ((1u << bits) - 1)) << (8 * i);
  return word;
}

// The reverse, where `is_written`; codes are below 2^width. All lanes of the warp take part, those
// that write nothing too.
__device__ inline void pack_lane(const std::uint32_t (&codes)[kLaneCodes], unsigned width,
                                 unsigned q, bool is_written, std::byte* group) {
  constexpr unsigned kAll = 0xffffffffu;
  auto* words = reinterpret_cast<std::uint32_t*>(group);
  unsigned shift = 0;
  if ((width & 16) != 0) {
#pragma unroll
    for (unsigned w = 0; w < 4; ++w) {
      if (is_written) words[4 * q + w] = codes[2 * w] | codes[2 * w + 1] << 16;
    }
    words += 16;
    shift = 16;
  }
  if ((width & 8) != 0) {
    if (is_written) {
      words[2 * q] = spread(codes, shift, 8);
      words[2 * q + 1] = spread(codes + 4, shift, 8);
    }
    words += 8;
    shift += 8;
  }
  // Lanes q and q + 2 hold the nibbles of the same bytes: each keeps one word and gives one away.
  const bool is_upper = q >= 2;
  if ((width & 4) != 0) {
    const unsigned at = is_upper ? 4 : 0;
    const std::uint32_t low = spread(codes, shift, 4) << at;
    const std::uint32_t high = spread(codes + 4, shift, 4) << at;
    const std::uint32_t other = __shfl_xor_sync(kAll, is_upper ? low : high, 2);
    if (is_written) words[2 * (q % 2) + q / 2] = (is_upper ? high : low) | other;
    words += 4;
    shift += 4;
  }
  if ((width & 2) != 0) {
    const std::uint32_t low = spread(codes, shift, 2) << (2 * q);
    const std::uint32_t high = spread(codes + 4, shift, 2) << (2 * q);
    std::uint32_t word = is_upper ? high : low;
    word |= __shfl_xor_sync(kAll, is_upper ? low : high, 2);
    word |= __shfl_xor_sync(kAll, word, 1);
    if (is_written && q % 2 == 0) words[q / 2] = word;
    words += 2;
    shift += 2;
  }
  if ((width & 1) != 0 && is_written) {
    std::uint32_t byte = 0;
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) byte |= (codes[i] >> shift & 1) << i;
    reinterpret_cast<std::byte*>(words)[q] = static_cast<std::byte>(byte);
  }
}

}  // namespace nf::device
