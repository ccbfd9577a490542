// The decode kernel of g_binary, g_ternary and marsit.
#pragma once

#include "cuda/device/sign.cuh"
#include "cuda/device/staged.cuh"
#include "cuda/device/values.cuh"

namespace nf::device {

// The bits of the values of chunk `c`; zeros after the last value.
template <DataType kType>
__device__ void load_chunk(const SignBlock& block, unsigned c, ChunkWords<kType>& words) {
  const std::size_t first = block.start() + c * kLaneCodes;
  if ((c + 1) * kLaneCodes <= block.held) {
    load_words(static_cast<const std::byte*>(block.piece.values) + first * size_of(kType), words);
  } else {
    load_words_before<kType>(block.piece.values, first,
                             static_cast<int>(block.held) - static_cast<int>(c * kLaneCodes),
                             words);
  }
}

// Stores `values` as the values of chunk `c`.
template <DataType kType>
__device__ void store_chunk(const float (&values)[kLaneCodes], const SignBlock& block, unsigned c) {
  const std::size_t first = block.start() + c * kLaneCodes;
  if ((c + 1) * kLaneCodes <= block.held) {
    store_values<kType>(values, block.piece.values, first);
  } else {
    store_values_before<kType>(values, block.piece.values, first, block.piece.count);
  }
}

// Adds the old values to the decoded ones.
template <DataType kType>
__device__ void add_values(const ChunkWords<kType>& words, float (&decoded)[kLaneCodes]) {
  float values[kLaneCodes];
  widen<kType>(words, values);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) decoded[i] = __fadd_rn(values[i], decoded[i]);
}

__device__ inline unsigned chunk_of(unsigned round) { return round * kSignThreads + threadIdx.x; }

// The value of a code: its level times the scale of one contribution.
struct SignValues {
  float factor;
  float step;
  float contributions;

  __device__ float operator()(float code) const {
    // Integers below 2^24, so every rounding is exact.
    const float level = __fmaf_rn(code, step, -contributions);
    return __fadd_rn(__fmul_rn(factor, level), 0.0f);
  }
};

// A whole block of one bit per element: all loads are issued before the first use.
template <DataType kType>
__device__ void read_bits(const SignBlock& block, const SignWire<const std::byte>& from,
                          const SignValues& value, bool adds) {
  ChunkWords<kType> words[kSignChunks] = {};
  std::uint32_t bits[kSignChunks];
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    bits[round] = load_bits(from, chunk_of(round));
  }
  std::byte* values =
      static_cast<std::byte*>(block.piece.values) + std::size_t{block.start()} * size_of(kType);
  if (adds) {
#pragma unroll
    for (unsigned round = 0; round < kSignChunks; ++round) {
      load_words(values + chunk_of(round) * kLaneCodes * size_of(kType), words[round]);
    }
  }
  const float minus = value(0);
  const float plus = value(1);
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    float decoded[kLaneCodes];
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      decoded[i] = (bits[round] >> i & 1) != 0 ? plus : minus;
    }
    if (adds) add_values<kType>(words[round], decoded);
    store_values<kType>(decoded, values, chunk_of(round) * kLaneCodes);
  }
}

// `is_open`: the message contains counts to vote on. kIsBit: codes have one bit, and there is no
// vote to take.
template <DataType kType, bool kIsBit>
__global__ void __launch_bounds__(kSignThreads)
    read_signs(cuda::Batch batch, SignLayout layout, bool is_open, cuda::ConstDeviceMessage in,
               bool adds) {
  const Tile tile = this_tile(batch, 1);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignWire<const std::byte> from(layout, block, in.bytes + in.piece_at[tile.index]);
  const auto contributions = static_cast<float>(layout.format.contributions);
  const SignValues value{__fdiv_rn(load_scale(from.scale), contributions),
                         is_open ? 2 * contributions : layout.format.step(), contributions};
  if (kIsBit && block.held == kSignBlock) {
    read_bits<kType>(block, from, value, adds);
    return;
  }
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = chunk_of(round);
    if (c * kLaneCodes >= block.held) return;
    ChunkWords<kType> words = {};
    if (adds) load_chunk<kType>(block, c, words);
    CodePairs pairs = {};
    add_chunk(from, c, pairs);
    if (!kIsBit && is_open) {
      const std::uint32_t bits = vote(batch, block, c, layout.format.contributions, pairs);
#pragma unroll
      for (unsigned w = 0; w < kCodePairs; ++w) pairs[w] = 0;
      add_bits(bits, 0, pairs);
    }
    float decoded[kLaneCodes];
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      // 2^23 + code as a float, minus 2^23.
      decoded[i] = value(__uint_as_float(code_of(pairs, i) | 0x4b000000u) - 0x1p23f);
    }
    if (adds) add_values<kType>(words, decoded);
    store_chunk<kType>(decoded, block, c);
  }
}

}  // namespace nf::device
