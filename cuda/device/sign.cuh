// The messages of g_binary and g_ternary on a device (codec/sign/sign_format.h): eight consecutive
// elements, a chunk, a thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/sign/sign_format.h"
#include "cuda/device/chunk_draws.cuh"
#include "cuda/device/codes.cuh"
#include "cuda/device/tiles.cuh"

namespace nf::device {

inline constexpr unsigned kSignThreads = 128;
inline constexpr unsigned kSignChunks = kSignBlock / kLaneCodes / kSignThreads;  // a thread
static_assert(kSignChunks * kLaneCodes * kSignThreads == kSignBlock);

// What a kernel knows of its codec.
struct SignOptions {
  std::uint32_t most_digit = 1;
  float tau = 0;
  bool majority = false;

  constexpr SignFormat format(std::uint32_t contributions, std::uint32_t ranks) const {
    return {.most_digit = most_digit,
            .contributions = contributions,
            .voted = majority && contributions == ranks};
  }
};

// Where the codes of a message of `count` values start.
constexpr std::size_t sign_codes_at(std::uint32_t count) {
  const std::size_t blocks = (count + kSignBlock - 1) / kSignBlock;
  return (4 * blocks + 15) / 16 * 16;
}

// One block of a piece: a thread block's work.
struct SignBlock {
  const cuda::DevicePiece& piece;
  std::uint32_t index;  // in the piece
  std::uint32_t held;   // values

  __device__ explicit SignBlock(const Tile& tile)
      : piece(tile.piece),
        index(tile.first),
        held(tile.piece.count - tile.first * static_cast<std::uint32_t>(kSignBlock)) {
    if (held > kSignBlock) held = kSignBlock;
  }

  // Where it starts in its piece.
  __device__ std::uint32_t start() const { return index * static_cast<std::uint32_t>(kSignBlock); }
  __device__ std::uint64_t element(unsigned e) const { return piece.first + start() + e; }
};

// The arrays of a message at one block.
template <typename Byte>
struct SignWire {
  SignFormat format;
  Byte* scale;
  Byte* codes;

  __device__ SignWire(const SignFormat& how, const SignBlock& block, Byte* message)
      : format(how),
        scale(message + 4 * std::size_t{block.index}),
        codes(message + sign_codes_at(block.piece.count) +
              block.index * how.code_bytes(kSignBlock)) {}
};

// byte / 3^i % 3: a digit of a byte below 243.
__device__ inline std::uint32_t trit_of(std::uint32_t byte, unsigned i) {
  // 2^16 / 3^i, rounded up: exact for bytes.
  const std::uint32_t reciprocal = i == 0   ? 65536
                                   : i == 1 ? 21846
                                   : i == 2 ? 7282
                                   : i == 3 ? 2428
                                            : 810;
  const std::uint32_t rest = byte * reciprocal >> 16;
  return rest - 3 * (rest * 171 >> 9);
}

// Reads the codes of chunk `c`. Precondition: its first element is held.
__device__ inline void read_chunk(const SignWire<const std::byte>& wire, unsigned c,
                                  std::uint32_t (&codes)[kLaneCodes]) {
  if (!wire.format.has_trits()) {
    const unsigned width = wire.format.width();
    unpack_lane(wire.codes + c / kGroupLanes * group_bytes(width), width, c % kGroupLanes, codes);
    return;
  }
  constexpr unsigned kUnitChunks = kTritUnit / kLaneCodes;
  const unsigned digit = c % kUnitChunks / kGroupLanes;
  const auto* words = reinterpret_cast<const std::uint32_t*>(
      wire.codes + c / kUnitChunks * kTritUnitBytes + c % kGroupLanes * kLaneCodes);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    codes[i] = trit_of(words[i / 4] >> (8 * (i % 4)) & 0xff, digit);
  }
}

// The lowest bits of the draws of a chunk, element i in bit i.
__device__ inline std::uint32_t draw_bits(const cuda::Batch& batch, const SignBlock& block,
                                          std::uint32_t encoder, unsigned c) {
  const std::uint64_t first = block.element(c * kLaneCodes);
  const ChunkDraws draws(block_key(step_key(batch.seed, batch.step), block.piece.parameter, encoder,
                                   DrawPurpose::kSign, first / kDrawBlock),
                         first);
  std::uint32_t bits = 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) bits |= (draws.draw(i) & 1) << i;
  return bits;
}

// Makes counts the digits of most of `contributions`.
__device__ inline void vote(const cuda::Batch& batch, const SignBlock& block, unsigned c,
                            std::uint32_t contributions, std::uint32_t (&codes)[kLaneCodes]) {
  bool is_tied = false;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) is_tied |= 2 * codes[i] == contributions;
  const std::uint32_t ties = is_tied ? draw_bits(batch, block, kSharedEncoder, c) : 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    codes[i] = 2 * codes[i] == contributions ? ties >> i & 1 : 2 * codes[i] > contributions;
  }
}

// Writes the codes of chunk `c` of a sum: votes where the message says so, and zero behind the last
// value. All lanes of the warp take part.
__device__ inline void write_chunk(const cuda::Batch& batch, const SignBlock& block, unsigned c,
                                   std::uint32_t (&codes)[kLaneCodes],
                                   const SignWire<std::byte>& wire) {
  if (wire.format.voted) vote(batch, block, c, wire.format.contributions, codes);
  const unsigned first = c * kLaneCodes;
  if (first + kLaneCodes > block.held) {
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      if (first + i >= block.held) codes[i] = 0;
    }
  }
  const unsigned width = wire.format.width();
  const bool is_written = first / kGroup * kGroup < block.held;
  pack_lane(codes, width, c % kGroupLanes, is_written,
            wire.codes + c / kGroupLanes * group_bytes(width));
}

__device__ inline float load_scale(const std::byte* scale) {
  return *reinterpret_cast<const float*>(scale);
}

__device__ inline void store_scale(float scale, std::byte* to) {
  const float finite_or_nan = isfinite(scale) ? scale : __uint_as_float(kPoisonScaleBits);
  *reinterpret_cast<float*>(to) = finite_or_nan;
}

// Clears what lies between scales and codes of a piece, by its first thread block, and what lies
// behind the last piece, by the last.
__device__ inline void clear_gaps(const Tile& tile, const SignFormat& format,
                                  const cuda::DeviceMessage& message) {
  const std::size_t at = message.piece_at[tile.index];
  const std::uint32_t count = tile.piece.count;
  const std::size_t codes = sign_codes_at(count);
  if (tile.first == 0) {
    const std::size_t gap = 4 * std::size_t{(count + kSignBlock - 1) / kSignBlock} + threadIdx.x;
    if (gap < codes) message.bytes[at + gap] = std::byte{0};
  }
  if (is_last_tile()) clear_behind(message, at + codes + format.code_bytes(count));
}

}  // namespace nf::device
