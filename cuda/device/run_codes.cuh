// Codes in planes (codec/codes.h) for lanes that hold two runs of a pack, 16 elements apart
// (super_group.cuh). A word holds four codes, one per byte, so that one instruction moves four.
//
// Widths go up to 10 and may differ between the teams of a warp. kWidth is the width of all
// super-groups, or 0 if widths are only known at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/super_group.cuh"

namespace nf::device {

template <int kRun>
struct RunBytes {
  static constexpr int kWords = kRun / 4;
  std::uint32_t low[kWords] = {};   // of the run in the first half of the pack
  std::uint32_t high[kWords] = {};  // of the run 16 elements later
};

// The planes of a pack, largest first.
struct Planes {
  unsigned width;

  __device__ __forceinline__ bool has(unsigned bits) const { return (width & bits) != 0; }
  // The word at which the plane of `bits` bits starts.
  __device__ __forceinline__ unsigned at(unsigned bits) const { return width & ~(2 * bits - 1); }
};

// Bits 0 to 3 as four bytes, and back.
__device__ __forceinline__ std::uint32_t spread_bits(std::uint32_t bits) {
  return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}
__device__ __forceinline__ std::uint32_t gather_bits(std::uint32_t bytes) {
  return ((bytes & 0x01010101u) * 0x10204080u) >> 28;
}

// This lane's bytes of a pack as in the message, loaded long before they are used.
template <int kRun, unsigned kWidth>
struct PackedCodes {
  static constexpr int kWords = RunBytes<kRun>::kWords;
  std::uint32_t large[kWidth == 4 ? kWords : 2 * kWords];  // the plane of 8 bits, or of 4
  std::uint32_t two[kWords];
  std::uint32_t one;

  // `pack` is aligned to 4 bytes, or to 16 if kWidth is 4.
  __device__ __forceinline__ void load(const std::byte* pack, unsigned width, unsigned first) {
    if constexpr (kWidth == 4) {
      load_words(pack + first, large);
      return;
    } else {
      const Planes planes{width};
      const auto* words = reinterpret_cast<const std::uint32_t*>(pack);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (planes.has(8 | 4)) large[w] = words[first / 4 + w];
        if (planes.has(8)) large[kWords + w] = words[4 + first / 4 + w];
        if (planes.has(2)) two[w] = words[planes.at(2) + first % 8 / 4 + w];
      }
      if (planes.has(1)) one = words[planes.at(1)];
    }
  }

  // Codes of up to 7 bits. If kWidth is 4, the upper halves of the bytes are undefined.
  __device__ __forceinline__ RunBytes<kRun> narrow(unsigned width, unsigned first) const {
    RunBytes<kRun> codes;
    if constexpr (kWidth == 4) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        codes.low[w] = large[w];
        codes.high[w] = large[w] >> 4;
      }
    } else {
      if (Planes{width}.has(4)) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          codes.low[w] = large[w] & 0x0f0f0f0fu;
          codes.high[w] = large[w] >> 4 & 0x0f0f0f0fu;
        }
      }
      add_small(width, first, codes);
    }
    return codes;
  }
  // Codes of any width: bits 0 to 7, and the bits from 8 on.
  __device__ __forceinline__ RunBytes<kRun> lower(unsigned width, unsigned first) const {
    if (!Planes{width}.has(8)) return narrow(width, first);
    RunBytes<kRun> codes;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      codes.low[w] = large[w];
      codes.high[w] = large[kWords + w];
    }
    return codes;
  }
  __device__ __forceinline__ RunBytes<kRun> upper(unsigned width, unsigned first) const {
    RunBytes<kRun> codes;
    if (Planes{width}.has(8)) add_small(width, first, codes);
    return codes;
  }

 private:
  // Adds the planes of two bits and of one bit. A multiplication shifts and adds in one
  // instruction.
  __device__ __forceinline__ void add_small(unsigned width, unsigned first,
                                            RunBytes<kRun>& codes) const {
    const Planes planes{width};
    if (planes.has(2)) {
      const std::uint32_t factor = 1u << (width & 4);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const std::uint32_t four = two[w] >> first / 8 * 2;
        codes.low[w] += (four & 0x03030303u) * factor;
        codes.high[w] += (four >> 4 & 0x03030303u) * factor;
      }
    }
    if (planes.has(1)) {
      const std::uint32_t factor = 1u << (width & 6);
      const std::uint32_t bits = one >> first;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        codes.low[w] += spread_bits(bits >> 4 * w) * factor;
        codes.high[w] += spread_bits(bits >> (16 + 4 * w)) * factor;
      }
    }
  }
};

// Writes this lane's codes, which are below 2^width: bits 0 to 7, and the bits from 8 on, which
// only widths above 8 have. Only lanes with `is_written` write, but all lanes of the warp take
// part.
template <int kRun>
__device__ __forceinline__ void write_codes(const RunBytes<kRun>& lower,
                                            const RunBytes<kRun>& upper, unsigned width,
                                            unsigned part, bool is_written, std::byte* pack) {
  constexpr int kWords = RunBytes<kRun>::kWords;
  const unsigned first = part * kRun;
  const Planes planes{width};
  auto* words = reinterpret_cast<std::uint32_t*>(pack);
  if (planes.has(8) && is_written) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      words[first / 4 + w] = lower.low[w];
      words[4 + first / 4 + w] = lower.high[w];
    }
  }
  if (planes.has(4) && is_written) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      words[first / 4 + w] = (lower.low[w] & 0x0f0f0f0fu) + (lower.high[w] & 0x0f0f0f0fu) * 16;
    }
  }
  // The remaining bits of the codes, at most three.
  RunBytes<kRun> rest;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    rest.low[w] = planes.has(8) ? upper.low[w] : lower.low[w] >> (width & 4);
    rest.high[w] = planes.has(8) ? upper.high[w] : lower.high[w] >> (width & 4);
  }
  if (any_lane(planes.has(2))) {
    std::uint32_t fours[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      fours[w] = ((rest.low[w] & 0x03030303u) + (rest.high[w] & 0x03030303u) * 16) << first / 8 * 2;
    }
    std::uint32_t own = fours[0];
    if constexpr (kRun == 8) {
      own = part == 0 ? fours[0] : fours[1];
      own |= from_neighbour(part == 0 ? fours[1] : fours[0], 1);
    } else {
      own |= from_neighbour(own, 2);
    }
    if (planes.has(2) && is_written && part < 2) words[planes.at(2) + part] = own;
  }
  if (any_lane(planes.has(1))) {
    std::uint32_t bits = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      bits |= gather_bits(rest.low[w] >> (width & 2)) << 4 * w;
      bits |= gather_bits(rest.high[w] >> (width & 2)) << (16 + 4 * w);
    }
    bits <<= first;
    bits |= from_neighbour(bits, 1);
    if constexpr (kRun == 4) bits |= from_neighbour(bits, 2);
    if (planes.has(1) && is_written && part == 0) words[planes.at(1)] = bits;
  }
}

// Bits 0 to 7, or bits 8 to 15, of four words as the bytes of one word.
__device__ __forceinline__ std::uint32_t low_bytes(const std::uint32_t (&words)[4]) {
  return __byte_perm(__byte_perm(words[0], words[1], 0x0040),
                     __byte_perm(words[2], words[3], 0x0040), 0x5410);
}
__device__ __forceinline__ std::uint32_t high_bytes(const std::uint32_t (&words)[4]) {
  return __byte_perm(__byte_perm(words[0], words[1], 0x0051),
                     __byte_perm(words[2], words[3], 0x0051), 0x5410);
}

}  // namespace nf::device
