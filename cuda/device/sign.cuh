// The messages of g_binary and g_ternary on a device (codec/sign/sign_format.h). A thread processes
// chunks of eight consecutive elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/sign/sign_format.h"
#include "cuda/device/chunk_draws.cuh"
#include "cuda/device/codes.cuh"
#include "cuda/device/tiles.cuh"

namespace nf::device {

inline constexpr unsigned kSignThreads = 128;
inline constexpr unsigned kBlockChunks = kSignBlock / kLaneCodes;
inline constexpr unsigned kSignChunks = kBlockChunks / kSignThreads;  // per thread
static_assert(kSignChunks * kSignThreads == kBlockChunks);

// A SignFormat and sizes derived from it, computed once by the host.
struct SignLayout {
  SignFormat format;
  std::uint32_t width = 0;        // of a code; 0 if five digits share a byte
  std::uint32_t block_bytes = 0;  // codes of a whole block

  constexpr SignLayout() = default;
  constexpr explicit SignLayout(const SignFormat& sign_format)
      : format(sign_format),
        width(sign_format.has_trits() ? 0 : sign_format.width()),
        block_bytes(static_cast<std::uint32_t>(sign_format.code_bytes(kSignBlock))) {}

  constexpr std::size_t code_bytes(std::uint32_t count) const {
    if (width == 0) return (count + kTritUnit - 1) / kTritUnit * kTritUnitBytes;
    return packs_of(count) * pack_bytes(width);
  }
};

// One block of a piece.
struct SignBlock {
  const cuda::DevicePiece& piece;
  std::uint32_t index;  // in the piece
  std::uint32_t held;   // values; 0 after the end of the piece

  // Block `b` of a tile.
  __device__ explicit SignBlock(const Tile& tile, std::uint32_t b = 0)
      : piece(tile.piece), index(tile.first + b), held(0) {
    if (index * std::uint64_t{kSignBlock} < piece.count) held = piece.count - start();
    if (held > kSignBlock) held = kSignBlock;
  }

  // Its first value in the piece.
  __device__ std::uint32_t start() const { return index * static_cast<std::uint32_t>(kSignBlock); }
  __device__ std::uint64_t element(unsigned e) const { return piece.first + start() + e; }

  // Whether a chunk is in a pack that has values.
  __device__ bool has_pack(unsigned c) const {
    return c / kPackLanes * static_cast<unsigned>(kPack) < held;
  }
  // The elements of a chunk that are values, element i in bit i.
  __device__ std::uint32_t held_bits(unsigned c) const {
    const unsigned first = c * kLaneCodes;
    if (first + kLaneCodes <= held) return 0xff;
    return first < held ? (1u << (held - first)) - 1 : 0;
  }
};

// The arrays of a message at one block.
template <typename Byte>
struct SignWire {
  std::uint32_t width;
  Byte* scale;
  Byte* codes;

  __device__ SignWire(const SignLayout& layout, const SignBlock& block, Byte* message)
      : width(layout.width),
        scale(message + 4 * std::size_t{block.index}),
        codes(message + sign_codes_at(block.piece.count) +
              block.index * std::size_t{layout.block_bytes}) {}
};

// 2^32 / 3^(i + 1), rounded up.
__device__ constexpr std::uint32_t trit_reciprocal(unsigned i) {
  return i == 0   ? 1431655766
         : i == 1 ? 477218589
         : i == 2 ? 159072863
         : i == 3 ? 53024288
                  : 17674763;
}

// Digit i of a byte below 243, byte / 3^i % 3: three times the fraction of byte / 3^(i + 1).
__device__ inline std::uint32_t trit_of(std::uint32_t byte, std::uint32_t reciprocal) {
  return __umulhi(byte * reciprocal, 3);
}

// Adds the codes of chunk `c`. Precondition: has_pack(c).
__device__ inline void add_chunk(const SignWire<const std::byte>& wire, unsigned c,
                                 CodePairs& pairs) {
  if (wire.width != 0) {
    add_lane(wire.codes + c / kPackLanes * pack_bytes(wire.width), wire.width, c % kPackLanes,
             pairs);
    return;
  }
  constexpr unsigned kUnitChunks = kTritUnit / kLaneCodes;
  const std::uint32_t reciprocal = trit_reciprocal(c % kUnitChunks / kPackLanes);
  const auto* words = reinterpret_cast<const std::uint32_t*>(
      wire.codes + c / kUnitChunks * kTritUnitBytes + c % kPackLanes * kLaneCodes);
  const std::uint32_t bytes[2] = {words[0], words[1]};
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    add_code(i, trit_of(bytes[i / 4] >> (8 * (i % 4)) & 0xff, reciprocal), pairs);
  }
}

// The byte of chunk `c` of a message of one bit per element, element i in bit i.
__device__ inline std::uint32_t load_bits(const SignWire<const std::byte>& wire, unsigned c) {
  return std::to_integer<std::uint32_t>(wire.codes[c]);
}

// Writes it, with zeros after the last value.
__device__ inline void store_bits(std::uint32_t bits, const SignBlock& block, unsigned c,
                                  const SignWire<std::byte>& wire) {
  if (block.has_pack(c)) wire.codes[c] = static_cast<std::byte>(bits & block.held_bits(c));
}

// The lowest bits of the draws of a chunk, element i in bit i.
__device__ inline std::uint32_t draw_bits(std::uint64_t step_key, const SignBlock& block,
                                          std::uint32_t encoder, unsigned c) {
  const std::uint64_t first = block.element(c * kLaneCodes);
  const ChunkDraws draws(
      block_key(step_key, block.piece.parameter, encoder, DrawPurpose::kSign, first / kDrawBlock),
      first);
  std::uint32_t bits = 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) bits |= (draws.draw(i) & 1) << i;
  return bits;
}

// The majority digits of `contributions` votes; the codes are counts.
__device__ inline std::uint32_t vote(const cuda::Batch& batch, const SignBlock& block, unsigned c,
                                     std::uint32_t contributions, const CodePairs& pairs) {
  std::uint32_t bits = 0;
  std::uint32_t ties = 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    const std::uint32_t twice = 2 * code_of(pairs, i);
    bits |= (twice > contributions ? 1u : 0u) << i;
    ties |= (twice == contributions ? 1u : 0u) << i;
  }
  if (ties != 0) {
    bits |= ties & draw_bits(step_key(batch.seed, batch.step), block, kSharedEncoder, c);
  }
  return bits;
}

// Writes the codes of chunk `c` of a sum, or its votes if the format is voted, with zeros after the
// last value. All lanes of the warp take part.
__device__ inline void write_chunk(const cuda::Batch& batch, const SignBlock& block, unsigned c,
                                   const SignLayout& layout, CodePairs& pairs,
                                   const SignWire<std::byte>& wire) {
  if (layout.format.voted) {
    store_bits(vote(batch, block, c, layout.format.contributions, pairs), block, c, wire);
    return;
  }
  const std::uint32_t held = block.held_bits(c);
  if (held != 0xff) {
    CodePairs masks = {};
    add_bits(held, 0, masks);
#pragma unroll
    for (unsigned w = 0; w < kCodePairs; ++w) pairs[w] &= masks[w] * 0xffff;
  }
  pack_lane(pairs, wire.width, c % kPackLanes, block.has_pack(c),
            wire.codes + c / kPackLanes * pack_bytes(wire.width));
}

__device__ inline float load_scale(const std::byte* scale) {
  return *reinterpret_cast<const float*>(scale);
}

__device__ inline void store_scale(float scale, std::byte* to) {
  const float finite_or_nan = isfinite(scale) ? scale : __uint_as_float(kPoisonScaleBits);
  *reinterpret_cast<float*>(to) = finite_or_nan;
}

// Clears the padding between scales and codes of a piece (its first thread block) and the bytes
// after the last piece (the last thread block).
__device__ inline void clear_gaps(const Tile& tile, const SignLayout& layout,
                                  const cuda::DeviceMessage& message) {
  const std::uint32_t count = tile.piece.count;
  const std::size_t codes = sign_codes_at(count);
  if (tile.first == 0) {
    const std::size_t gap = 4 * std::size_t{(count + kSignBlock - 1) / kSignBlock} + threadIdx.x;
    if (gap < codes) message.bytes[message.piece_at[tile.index] + gap] = std::byte{0};
  }
  if (is_last_tile()) {
    clear_after(message, message.piece_at[tile.index] + codes + layout.code_bytes(count));
  }
}

}  // namespace nf::device
