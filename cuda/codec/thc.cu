// thc on the device (docs/codecs/thc.md).
#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/max_of_ranks.cuh"
#include "cuda/device/running_sums.cuh"
#include "cuda/device/thc.cuh"
#include "cuda/device/values.cuh"

namespace nf::cuda {
namespace {

using device::ChunkDraws;
using device::kLaneCodes;
using device::ThcChunk;
using device::ThcOptions;
using Codes = std::uint32_t[kLaneCodes];

constexpr unsigned kNormThreads = 256;
constexpr std::uint32_t kNormValues = 4096;  // per thread block; one block if it is larger

__device__ float flushed(float x) { return magnitude_bits(x) < magnitude_bits(kThcMin) ? 0.0f : x; }

template <DataType kType>
__device__ void load_chunk(const DevicePiece& piece, std::uint32_t first, float (&x)[kLaneCodes]) {
  if (first + kLaneCodes <= piece.count) {
    device::load_values<kType>(piece.values, first, x);
  } else {
    device::load_values_before<kType>(piece.values, first, piece.count, 0.0f, x);
  }
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) x[i] = flushed(x[i]);
}

// The norms of `tile_blocks` blocks, each staged separately and summed by sixteen threads.
template <DataType kType>
__global__ void __launch_bounds__(kNormThreads)
    read_norms(Batch batch, std::uint32_t block, std::uint32_t tile_blocks, std::byte* out) {
  extern __shared__ __align__(8) float staged[];
  const device::Tile tile = device::this_tile(batch, tile_blocks);
  for (unsigned value = threadIdx.x * kLaneCodes; value < tile_blocks * block;
       value += kNormThreads * kLaneCodes) {
    float x[kLaneCodes];
    load_chunk<kType>(tile.piece, tile.first * block + value, x);
    device::stage(x, block, value % block, staged + value / block * device::staged_floats(block));
  }
  __syncthreads();
  constexpr unsigned kAtOnce = 2;  // blocks per warp
  for (unsigned b = threadIdx.x / 32 * kAtOnce; b < tile_blocks; b += kNormThreads / 32 * kAtOnce) {
    const unsigned own = min(b + threadIdx.x % 32 / device::kRunningSums, tile_blocks - 1);
    const float sum = device::running_sum(staged + own * device::staged_floats(block), block,
                                          [](float x) { return __fmul_rn(x, x); });
    const std::uint32_t index = tile.first + own;
    if (threadIdx.x % device::kRunningSums != 0 ||
        index * std::uint64_t{block} >= tile.piece.count) {
      continue;
    }
    reinterpret_cast<std::uint16_t*>(out)[tile.piece.first_block + index] =
        isfinite(sum) ? float_to_bfloat16_up(__fsqrt_rn(sum)) : kBfloat16Nan;
  }
}

template <DataType kType>
__global__ void __launch_bounds__(device::kThcMaxThreads)
    write_thc(Batch batch, std::uint64_t step_key, ThcOptions options, device::Incoming in,
              DeviceMessage out) {
  extern __shared__ float4 shared[];
  const device::Tile tile = device::this_tile(batch, device::thc_tile(options.block));
  const ThcCodes sums = thc_codes(out.origin.contributions, options.max_width);
  std::byte* to = out.bytes + out.piece_at[tile.index];
  if (device::is_last_tile()) {
    const std::size_t packs = device::thc_packs(tile.piece.count, options.block);
    device::clear_after(out, out.piece_at[tile.index] + packs * pack_bytes(sums.width()));
  }
  const ThcChunk chunk(tile, options);
  float h[kLaneCodes];
  load_chunk<kType>(tile.piece, chunk.first, h);

  // Two neighbouring threads need the same two keys; each computes one.
  const bool is_rounding = threadIdx.x % 2 != 0;
  const DrawKey own = device::block_key(
      step_key, tile.piece.parameter, is_rounding ? out.origin.encoder : kSharedEncoder,
      is_rounding ? DrawPurpose::kRounding : DrawPurpose::kRotation, chunk.element / kDrawBlock);
  DrawKey other = own;
  other.start = __shfl_xor_sync(0xffffffffu, own.start, 1);
  other.twist = __shfl_xor_sync(0xffffffffu, own.twist, 1);

  const ChunkDraws signs(is_rounding ? other : own, chunk.element);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) h[i] = device::with_sign(h[i], signs.sign(i));
  device::transform(options, chunk.size, shared, h);

  Codes codes = {};
  if (thc_has_codes(chunk.norm)) {
    const float to_codes =
        __fdiv_rn(__fdiv_rn(kThcCentre, options.clip), bfloat16_to_float(chunk.norm));
    const ChunkDraws draws(is_rounding ? own : other, chunk.element);
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      const float dither = __uint_as_float(kThcDitherBits | draws.draw(i) << 7);
      const float position = __fmaf_rn(h[i], to_codes, dither);
      const float clamped =
          fminf(fmaxf(position, -kThcBelow), static_cast<float>(kThcTop) - kThcBelow);
      // Adding 3 * 2^22 rounds to nearest and leaves the integer in the last bits.
      const std::uint32_t whole = __float_as_uint(clamped + 0x1.8p23f) - 0x4b400000u;
      codes[i] = whole + static_cast<std::uint32_t>(kThcBelow);
    }
  }
  if (in.count > 0) {
    const std::uint64_t in_at = in.piece_at[tile.index];
    const unsigned width = thc_codes(in.contributions, options.max_width).width();
    std::uint32_t sum = 1;
    for (std::uint32_t m = 0; m < in.count; ++m) {
      Codes others = {};
      if (chunk.is_on_wire) {
        device::unpack_lane(chunk.pack(in.bytes[m] + in_at, width), width, chunk.quarter, others);
      }
      device::add_codes(options, in.contributions, others, sum, codes);
    }
  }
  device::pack_lane(codes, sums.width(), chunk.quarter, chunk.is_on_wire,
                    chunk.pack(to, sums.width()));
}

template <DataType kType>
__global__ void __launch_bounds__(device::kThcMaxThreads)
    read_thc(Batch batch, std::uint64_t step_key, ThcOptions options, ConstDeviceMessage in,
             bool adds) {
  extern __shared__ float4 shared[];
  const device::Tile tile = device::this_tile(batch, device::thc_tile(options.block));
  const ThcCodes sums = thc_codes(in.origin.contributions, options.max_width);
  const ThcChunk chunk(tile, options);
  Codes codes = {};
  if (chunk.is_on_wire) {
    device::unpack_lane(chunk.pack(in.bytes + in.piece_at[tile.index], sums.width()), sums.width(),
                        chunk.quarter, codes);
  }
  float h[kLaneCodes];
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    // Codes are below 2^23: 2^23 + code as a float, minus 2^23.
    h[i] = __uint_as_float(codes[i] | 0x4b000000u) - 0x1p23f - sums.centre();
  }
  device::transform(options, chunk.size, shared, h);
  if (chunk.first >= tile.piece.count) return;

  const float step =
      __fmul_rn(__fmul_rn(__fdiv_rn(options.clip, kThcCentre), bfloat16_to_float(chunk.norm)),
                __frcp_rn(static_cast<float>(chunk.size)));
  const ChunkDraws signs(device::block_key(step_key, tile.piece.parameter, kSharedEncoder,
                                           DrawPurpose::kRotation, chunk.element / kDrawBlock),
                         chunk.element);
  const bool has_codes = thc_has_codes(chunk.norm);
  const float all = thc_is_poisoned(chunk.norm) ? __uint_as_float(0x7fc00000u) : 0.0f;
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    h[i] = has_codes ? device::with_sign(__fmul_rn(h[i], step), signs.sign(i)) : all;
  }
  const bool is_whole = chunk.first + kLaneCodes <= tile.piece.count;
  if (adds) {
    float old[kLaneCodes];
    if (is_whole) {
      device::load_values<kType>(tile.piece.values, chunk.first, old);
    } else {
      device::load_values_before<kType>(tile.piece.values, chunk.first, tile.piece.count, 0.0f,
                                        old);
    }
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) h[i] = __fadd_rn(old[i], h[i]);
  }
  if (is_whole) {
    device::store_values<kType>(h, tile.piece.values, chunk.first);
  } else {
    device::store_values_before<kType>(h, tile.piece.values, chunk.first, tile.piece.count);
  }
}

__global__ void __launch_bounds__(device::kThcMaxThreads)
    merge_thc(Batch batch, ThcOptions options, ConstDeviceMessage first, ConstDeviceMessage second,
              DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, device::thc_tile(options.block));
  const unsigned width = thc_codes(out.origin.contributions, options.max_width).width();
  if (device::is_last_tile()) {
    const std::size_t packs = device::thc_packs(tile.piece.count, options.block);
    device::clear_after(out, out.piece_at[tile.index] + packs * pack_bytes(width));
  }
  const ThcChunk chunk(tile, options);
  Codes codes = {};
  if (chunk.is_on_wire) {
    const auto read = [&](const ConstDeviceMessage& message, Codes& to) {
      const unsigned in = thc_codes(message.origin.contributions, options.max_width).width();
      device::unpack_lane(chunk.pack(message.bytes + message.piece_at[tile.index], in), in,
                          chunk.quarter, to);
    };
    Codes others;
    read(first, codes);
    read(second, others);
    std::uint32_t sum = first.origin.contributions;
    device::add_codes(options, second.origin.contributions, others, sum, codes);
  }
  device::pack_lane(codes, width, chunk.quarter, chunk.is_on_wire,
                    chunk.pack(out.bytes + out.piece_at[tile.index], width));
}

class ThcDevice final : public FoldingCodec {
 public:
  explicit ThcDevice(ThcOptions options) : options_(options) {}

  Status statistics(const Batch& batch, std::byte* out, std::byte* /*scratch*/,
                    cudaStream_t stream) const override {
    if (batch.piece_count == 0) return {};
    const std::uint32_t block = options_.block;
    const std::uint32_t tile = std::max<std::uint32_t>(kNormValues / block, 1);
    return with_type(batch.type, [&](auto type) {
      read_norms<type()><<<device::tiles_of(batch, tile), kNormThreads,
                           tile * device::staged_floats(block) * sizeof(float), stream>>>(
          batch, block, tile, out);
      return launch_status("thc statistics");
    });
  }

  Status combine_statistics(const Batch& /*batch*/, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override {
    return device::combine_max<std::uint16_t>(ranks, by_rank, size, combined, stream);
  }

  Status merge(const Batch& batch, const ConstDeviceMessage& first,
               const ConstDeviceMessage& second, const DeviceMessage& out,
               cudaStream_t stream) const override {
    if (batch.piece_count == 0) return clear(out, stream);
    merge_thc<<<grid(batch), threads(), 0, stream>>>(batch, options_, first, second, out);
    return launch_status("thc merge");
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      write_thc<type()><<<grid(batch), threads(), shared_bytes(), stream>>>(
          batch, device::step_key(batch.seed, batch.step), options_, in, out);
      return launch_status("thc encode");
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      read_thc<type()><<<grid(batch), threads(), shared_bytes(), stream>>>(
          batch, device::step_key(batch.seed, batch.step), options_, in, adds);
      return launch_status("thc decode");
    });
  }

 private:
  unsigned threads() const { return device::thc_threads(options_.block); }
  unsigned grid(const Batch& batch) const {
    return device::tiles_of(batch, device::thc_tile(options_.block));
  }
  // For the steps of the transform between warps.
  std::size_t shared_bytes() const { return threads() * kLaneCodes * sizeof(float); }

  const ThcOptions options_;
};

}  // namespace

DeviceCodecResult make_device_thc(const Codec& codec) {
  const Expected<double> clip = codec.spec().number("clip", 2.4176, 1, 8);
  if (!clip) return clip.status();
  const Expected<double> saturate = codec.spec().number("saturate", kMaxWidth, 4, 16);
  if (!saturate) return saturate.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<ThcDevice>(ThcOptions{.block = static_cast<std::uint32_t>(codec.granule()),
                                             .clip = static_cast<float>(*clip),
                                             .max_width = static_cast<unsigned>(*saturate)}));
}

}  // namespace nf::cuda
