// The transform and the codes of thc on a device (docs/codecs/thc.md). A thread holds a chunk,
// eight consecutive values of a block; its index in the thread block is that of the chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "codec/thc/thc_kernels.h"
#include "cuda/device/chunk_draws.cuh"
#include "cuda/device/codes.cuh"
#include "cuda/device/tiles.cuh"

namespace nf::device {

// The codec's options, as launch arguments.
struct ThcOptions {
  std::uint32_t block = 0;
  float clip = 0;
  unsigned max_width = 0;
};

// Thread blocks process whole blocks.
inline constexpr unsigned kThcMinThreads = 128;
inline constexpr unsigned kThcMaxThreads = 1024;

constexpr unsigned thc_threads(std::uint32_t block) {
  return block > kThcMinThreads * kLaneCodes ? block / kLaneCodes : kThcMinThreads;
}
constexpr std::uint32_t thc_tile(std::uint32_t block) {
  return thc_threads(block) * kLaneCodes / block;
}

// Values on the wire, padding included, of a last block with `held` values.
constexpr std::uint32_t thc_padded(std::uint32_t held) {
  return held > kPack ? std::bit_ceil(held) : std::uint32_t{kPack};
}

// Packs of a message of `count` values.
constexpr std::size_t thc_packs(std::uint32_t count, std::uint32_t block) {
  const std::uint32_t rest = count % block;
  return (std::size_t{count} - rest + (rest == 0 ? 0 : thc_padded(rest))) / kPack;
}

// Eight values of a block, for one thread.
struct ThcChunk {
  std::uint32_t block;    // of the piece
  std::uint32_t size;     // values of the block, padding included; 0 past the last block
  std::uint32_t first;    // value of the piece
  std::uint64_t element;  // of the parameter
  unsigned quarter;       // of the pack
  bool is_on_wire;
  std::uint16_t norm = 0;  // of the block; 0 past the last block

  __device__ ThcChunk(const Tile& tile, const ThcOptions& options) {
    const std::uint32_t value = threadIdx.x * kLaneCodes;
    block = tile.first + value / options.block;
    const std::uint32_t start = block * options.block;
    size = 0;
    if (start < tile.piece.count) {
      const std::uint32_t held = tile.piece.count - start;
      size = held >= options.block ? options.block : thc_padded(held);
      norm = reinterpret_cast<const std::uint16_t*>(tile.piece.statistics)[block];
    }
    first = start + value % options.block;
    element = tile.piece.first + first;
    quarter = threadIdx.x % kPackLanes;
    is_on_wire = value % options.block < size;
  }

  // Its pack in a message whose piece starts at `piece`.
  template <typename Byte>
  __device__ Byte* pack(Byte* piece, unsigned width) const {
    return piece + first / kPack * pack_bytes(width);
  }
};

// Walsh-Hadamard transform of all blocks of the thread block, without the factor 1 / sqrt(size).
// `shared` has eight floats per thread. All threads take part.
__device__ inline void transform(const ThcOptions& options, std::uint32_t size, float4* shared,
                                 float (&h)[kLaneCodes]) {
#pragma unroll
  for (unsigned half = 1; half < kLaneCodes; half *= 2) {
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      if ((i & half) != 0) continue;
      const float a = h[i];
      const float b = h[i + half];
      h[i] = a + b;
      h[i + half] = a - b;
    }
  }
  // Each thread has one value of a pair. The lower thread computes the sum, the upper one the other
  // value minus its own; multiplying by +-1 is exact.
#pragma unroll
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const float sign = (threadIdx.x & lanes) != 0 ? -1.0f : 1.0f;
    const bool is_stage = lanes * kLaneCodes < size;
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      const float other = __shfl_xor_sync(0xffffffffu, h[i], lanes);
      if (is_stage) h[i] = __fmaf_rn(h[i], sign, other);
    }
  }
  for (unsigned threads = 32; threads * kLaneCodes < options.block; threads *= 2) {
    float4* low = shared;
    float4* high = shared + blockDim.x;
    low[threadIdx.x] = make_float4(h[0], h[1], h[2], h[3]);
    high[threadIdx.x] = make_float4(h[4], h[5], h[6], h[7]);
    __syncthreads();
    if (threads * kLaneCodes < size) {
      const float sign = (threadIdx.x & threads) != 0 ? -1.0f : 1.0f;
      const float4 a = low[threadIdx.x ^ threads];
      const float4 b = high[threadIdx.x ^ threads];
      const float others[kLaneCodes] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (unsigned i = 0; i < kLaneCodes; ++i) h[i] = __fmaf_rn(h[i], sign, others[i]);
    }
    __syncthreads();
  }
}

__device__ inline float with_sign(float x, std::uint32_t sign) {
  return __uint_as_float(__float_as_uint(x) ^ sign);
}

// Adds the codes of a message to the codes of `sum` contributions, and saturates.
__device__ inline void add_codes(const ThcOptions& options, std::uint32_t contributions,
                                 const std::uint32_t (&others)[kLaneCodes], std::uint32_t& sum,
                                 std::uint32_t (&codes)[kLaneCodes]) {
  const ThcCodes total = thc_codes(sum + contributions, options.max_width);
  const std::uint32_t excess = thc_excess(thc_codes(sum, options.max_width),
                                          thc_codes(contributions, options.max_width), total);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    const std::uint32_t both = codes[i] + others[i];
    codes[i] = min(both - min(both, excess), total.top);
  }
  sum += contributions;
}

}  // namespace nf::device
