// Encoding signs, and decoding what they add up to: kernels that g_binary and marsit share, and
// g_ternary in part. A thread block has one block of values. It reads them once: digits are packed
// as they come, and the values wait in shared memory for the sum of their magnitudes, which has an
// order.
#pragma once

#include "cuda/device/running_sums.cuh"
#include "cuda/device/sign.cuh"
#include "cuda/device/values.cuh"

namespace nf::device {

__device__ inline unsigned chunk_of(unsigned round) { return round * kSignThreads + threadIdx.x; }

// Whether this warp is the one that sums. Thread blocks take turns, since warps of the same number
// share a scheduler.
__device__ inline bool is_summing() { return threadIdx.x / 32 == blockIdx.x % (kSignThreads / 32); }

template <DataType kType>
using ChunkWords = std::uint32_t[kValueWords<kType, kLaneCodes>];

// The values of chunk `c` as they lie in memory; zeros behind the last.
template <DataType kType>
__device__ void load_chunk(const SignBlock& block, unsigned c, ChunkWords<kType>& words) {
  const std::size_t first = block.start() + c * kLaneCodes;
  if ((c + 1) * kLaneCodes <= block.held) {
    load_words(static_cast<const std::byte*>(block.piece.values) + first * size_of(kType), words);
    return;
  }
  float values[kLaneCodes];
  load_values_before<kType>(block.piece.values, first, block.piece.count, 0.0f, values);
  narrow_numbers<kType>(values, words);
}

// All chunks of this thread, in a whole block without a branch between the loads.
template <DataType kType>
__device__ void load_block(const SignBlock& block, ChunkWords<kType> (&words)[kSignChunks]) {
  const std::byte* values =
      static_cast<const std::byte*>(block.piece.values) + block.start() * size_of(kType);
  if (block.held == kSignBlock) {
#pragma unroll
    for (unsigned round = 0; round < kSignChunks; ++round) {
      load_words(values + chunk_of(round) * kLaneCodes * size_of(kType), words[round]);
    }
    return;
  }
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    load_chunk<kType>(block, chunk_of(round), words[round]);
  }
}

// The digits of chunk `c` of g_binary.
__device__ inline void binary_digits(const cuda::Batch& batch, const SignBlock& block,
                                     std::uint32_t encoder, unsigned c,
                                     const float (&x)[kLaneCodes],
                                     std::uint32_t (&digits)[kLaneCodes]) {
  bool has_zero = false;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    digits[i] = x[i] > 0 ? 1 : 0;
    has_zero |= x[i] == 0;
  }
  if (!has_zero) return;
  const std::uint32_t drawn = draw_bits(batch, block, encoder, c);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    if (x[i] == 0) digits[i] = drawn >> i & 1;
  }
}

// Of a block that contributes `own`.
__device__ inline void write_scale(float own, const Incoming& in, std::uint64_t piece_at,
                                   const SignBlock& block, const SignWire<std::byte>& to) {
  float sum = isfinite(own) ? own : __uint_as_float(kPoisonScaleBits);
  for (std::uint32_t m = 0; m < in.count; ++m) {
    sum += load_scale(in.bytes[m] + piece_at + 4 * std::size_t{block.index});
  }
  store_scale(sum, to.scale);
}

// `sum` says how messages come together: format(contributions, ranks), and add(), which adds those
// of a batch to the digits of a chunk.
template <DataType kType, typename Sum>
__global__ void __launch_bounds__(kSignThreads)
    write_binary(cuda::Batch batch, Sum sum, Incoming in, cuda::DeviceMessage out) {
  __shared__ __align__(8) float staged[staged_floats(kSignBlock)];
  const Tile tile = this_tile(batch, 1);
  const SignFormat format = sum.format(out.origin.contributions, batch.ranks);
  clear_gaps(tile, format, out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignWire<std::byte> to(format, block, out.bytes + out.piece_at[tile.index]);
  const std::uint64_t in_at = in.count > 0 ? in.piece_at[tile.index] : 0;

  ChunkWords<kType> words[kSignChunks];
  load_block<kType>(block, words);
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = chunk_of(round);
    float x[kLaneCodes];
    widen<kType>(words[round], x);
    stage(x, kSignBlock, c * kLaneCodes, staged);
    std::uint32_t codes[kLaneCodes];
    binary_digits(batch, block, out.origin.encoder, c, x, codes);
    if (c * kLaneCodes < block.held) sum.add(batch, block, c, in, in_at, out.origin.encoder, codes);
    write_chunk(batch, block, c, codes, to);
  }
  __syncthreads();
  if (!is_summing()) return;
  const float total = running_sum(staged, kSignBlock, [](float x) { return fabsf(x); });
  if (threadIdx.x % 32 != 0) return;
  write_scale(__fdiv_rn(total, static_cast<float>(block.held)), in, in_at, block, to);
}

template <DataType kType>
__global__ void __launch_bounds__(kSignThreads)
    read_signs(cuda::Batch batch, SignOptions options, cuda::ConstDeviceMessage in, bool adds) {
  const Tile tile = this_tile(batch, 1);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignFormat format = options.format(in.origin.contributions, batch.ranks);
  const SignWire<const std::byte> from(format, block, in.bytes + in.piece_at[tile.index]);
  const auto contributions = static_cast<float>(format.contributions);
  const float factor = __fdiv_rn(load_scale(from.scale), contributions);
  // A vote that has not been taken yet.
  const bool is_open = options.majority && !format.voted;
  const float step = is_open ? 2 * contributions : format.step();
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = chunk_of(round);
    if (c * kLaneCodes >= block.held) return;
    std::uint32_t codes[kLaneCodes];
    read_chunk(from, c, codes);
    if (is_open) vote(batch, block, c, format.contributions, codes);
    const std::size_t at = block.start() + c * kLaneCodes;
    const bool is_whole = (c + 1) * kLaneCodes <= block.held;
    float values[kLaneCodes];
    if (adds) {
      if (is_whole) {
        load_values<kType>(block.piece.values, at, values);
      } else {
        load_values_before<kType>(block.piece.values, at, block.piece.count, 0.0f, values);
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      // Codes are below 2^23: a float that ends in their bits, less what it has without them.
      const float code = __uint_as_float(codes[i] | 0x4b000000u) - 0x1p23f;
      const float level = __fsub_rn(__fmul_rn(code, step), contributions);
      const float value = __fadd_rn(__fmul_rn(factor, level), 0.0f);
      values[i] = adds ? __fadd_rn(values[i], value) : value;
    }
    if (is_whole) {
      store_values<kType>(values, block.piece.values, at);
    } else {
      store_values_before<kType>(values, block.piece.values, at, block.piece.count);
    }
  }
}

}  // namespace nf::device
