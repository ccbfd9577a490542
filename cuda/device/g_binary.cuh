// The encode kernel of g_binary and marsit.
#pragma once

#include "cuda/device/sign.cuh"
#include "cuda/device/staged.cuh"
#include "cuda/device/values.cuh"

namespace nf::device {

// Prefetches the codes of a tile in `in`, which are read once the values are staged.
__device__ inline void prefetch_codes(const Tile& tile, const Incoming& in, std::uint64_t piece_at,
                                      const SignLayout& layout) {
  constexpr std::size_t kLine = 128;
  const std::size_t first = std::size_t{tile.first} * layout.block_bytes;
  const std::size_t end =
      min(first + kStagedBlocks * layout.block_bytes, layout.code_bytes(tile.piece.count));
  for (std::uint32_t m = 0; m < in.count; ++m) {
    const std::byte* codes = in.bytes[m] + piece_at + sign_codes_at(tile.piece.count);
    for (std::size_t i = first + threadIdx.x * kLine; i < end; i += kSignThreads * kLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(codes + i));
    }
  }
}

// Whether every 16-bit value is neither zero nor NaN.
template <DataType kType, int kWords>
__device__ bool are_signed_numbers(const std::uint32_t (&words)[kWords]) {
  constexpr std::uint32_t kInfinity = kType == DataType::kBfloat16 ? 0x7f80 : 0x7c00;
  constexpr std::uint32_t kTops = 0x8000 * kBothHalves;
  std::uint32_t tops = kTops;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const std::uint32_t magnitudes = words[i] & ~kTops;
    // Top bits: not 0, and not above infinity.
    tops &= (magnitudes + ~kTops) & ((kTops | kInfinity * kBothHalves) - magnitudes);
  }
  return tops == kTops;
}

// The signs of eight 16-bit values, 1 for plus, element i in bit i.
__device__ inline std::uint32_t plus_bits(const std::uint32_t (&words)[4]) {
  const std::uint32_t first = ~__byte_perm(words[0], words[1], 0x7531);
  const std::uint32_t second = ~__byte_perm(words[2], words[3], 0x7531);
  const std::uint32_t bits = (first >> 7 & 0x01010101u) | (second >> 3 & 0x10101010u);
  // Moves bits 0 and 4 of byte j to j and j + 4 of the top byte.
  return bits * 0x01020408u >> 24;
}

// The digits of chunk `c` of g_binary, element i in bit i; undefined after the last value.
template <DataType kType>
__device__ std::uint32_t binary_digits(const cuda::Batch& batch, const SignBlock& block,
                                       std::uint32_t encoder, unsigned c,
                                       const ChunkWords<kType>& words) {
  if constexpr (kType != DataType::kFloat32) {
    if (are_signed_numbers<kType>(words)) return plus_bits(words);
  }
  float x[kLaneCodes];
  widen<kType>(words, x);
  std::uint32_t bits = 0;
  std::uint32_t zeros = 0;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    bits |= (x[i] > 0 ? 1u : 0u) << i;
    zeros |= (x[i] == 0 ? 1u : 0u) << i;
  }
  zeros &= block.held_bits(c);
  if (zeros == 0) return bits;
  std::uint64_t seed = batch.seed;
  // Zeros are rare: keep the compiler from computing the key before it is needed.
  asm volatile("" : "+l"(seed));
  return bits | (zeros & draw_bits(step_key(seed, batch.step), block, encoder, c));
}

// Writes the scale of a block: `own` plus the scales of the messages.
__device__ inline void write_scale(float own, const Incoming& in, std::uint64_t piece_at,
                                   const SignBlock& block, const SignWire<std::byte>& to) {
  float sum = isfinite(own) ? own : __uint_as_float(kPoisonScaleBits);
  for (std::uint32_t m = 0; m < in.count; ++m) {
    sum += load_scale(in.bytes[m] + piece_at + 4 * std::size_t{block.index});
  }
  store_scale(sum, to.scale);
}

// No messages to add: the digits are written as they are.
struct NoSum {
  static constexpr bool kAdds = false;
  SignLayout layout{SignFormat{}};

  __device__ void write(const cuda::Batch& /*batch*/, const SignBlock& block, unsigned c,
                        const Incoming& /*in*/, std::uint64_t /*piece_at*/,
                        std::uint32_t /*encoder*/, std::uint32_t bits,
                        const SignWire<std::byte>& to) const {
    store_bits(bits, block, c, to);
  }
};

// `sum` adds the messages: `layout` of the result; kAdds, whether there are any messages, with
// `layout_in`; and write(), which adds them to the digits of a chunk and writes it. All lanes of a
// warp call write().
template <DataType kType, typename Sum>
__global__ void __launch_bounds__(kSignThreads)
    write_binary(cuda::Batch batch, Sum sum, Incoming in, cuda::DeviceMessage out) {
  __shared__ Staged<kType> staged;
  const Tile tile = this_tile(batch, kStagedBlocks);
  clear_gaps(tile, sum.layout, out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  start_staging(tile, staged);
  std::byte* message = out.bytes + out.piece_at[tile.index];
  std::uint64_t in_at = 0;
  if constexpr (Sum::kAdds) {
    in_at = in.piece_at[tile.index];
    prefetch_codes(tile, in, in_at, sum.layout_in);
  }
  finish_staging();

  if (is_summing()) {
    const float total = staged_sum(staged, [](float x, float& sum) { sum += fabsf(x); });
    const SignBlock block(tile, threadIdx.x % 32 / kRunningSums);
    if (threadIdx.x % kRunningSums != 0 || block.held == 0) return;
    write_scale(__fdiv_rn(total, static_cast<float>(block.held)), in, in_at, block,
                SignWire<std::byte>(sum.layout, block, message));
    return;
  }
#pragma unroll 1
  for (unsigned b = 0; b < kStagedBlocks; ++b) {
    const SignBlock block(tile, b);
    const SignWire<std::byte> to(sum.layout, block, message);
#pragma unroll 2
    for (unsigned c = packing_thread(); c < kBlockChunks; c += kPackingThreads) {
      ChunkWords<kType> words;
      load_words(staged.at(b, c * kLaneCodes), words);
      const std::uint32_t bits = binary_digits<kType>(batch, block, out.origin.encoder, c, words);
      sum.write(batch, block, c, in, in_at, out.origin.encoder, bits, to);
    }
  }
}

}  // namespace nf::device
