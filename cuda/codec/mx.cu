// mxfp8, mxfp6 and mxfp4 on the device (docs/codecs/mxfp.md): eight values per thread, four threads
// per block of 32.
#include <cmath>

#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/codes.cuh"
#include "cuda/device/max_of_ranks.cuh"
#include "cuda/device/mx.cuh"
#include "cuda/device/values.cuh"

namespace nf::cuda {
namespace {

using device::kLaneCodes;
using device::kPackLanes;
using device::MxScale;
using device::MxScales;

constexpr unsigned kThreads = 256;
constexpr unsigned kRounds = 2;
constexpr std::uint32_t kTile = kThreads * kRounds / kPackLanes;  // blocks

// Eight values of a block, for one thread in one round.
struct Chunk {
  std::uint32_t block;  // of the piece
  unsigned quarter;     // of the block
  std::uint32_t first;  // value of the piece
  bool is_whole;
  bool has_block;  // otherwise the block is past the end of the piece

  __device__ Chunk(const device::Tile& tile, unsigned round) {
    const unsigned c = round * kThreads + threadIdx.x;
    block = tile.first + c / kPackLanes;
    quarter = c % kPackLanes;
    first = block * static_cast<std::uint32_t>(kMxBlock) + quarter * kLaneCodes;
    is_whole = first + kLaneCodes <= tile.piece.count;
    has_block = block * static_cast<std::uint32_t>(kMxBlock) < tile.piece.count;
  }
};

template <DataType kType>
__device__ void load_chunk(const device::Tile& tile, const Chunk& chunk, float (&x)[kLaneCodes]) {
  if (chunk.is_whole) {
    device::load_values<kType>(tile.piece.values, chunk.first, x);
  } else {
    device::load_values_before<kType>(tile.piece.values, chunk.first, tile.piece.count, 0.0f, x);
  }
}

template <DataType kType>
__device__ void store_chunk(const float (&x)[kLaneCodes], const device::Tile& tile,
                            const Chunk& chunk) {
  if (chunk.is_whole) {
    device::store_values<kType>(x, tile.piece.values, chunk.first);
  } else {
    device::store_values_before<kType>(x, tile.piece.values, chunk.first, tile.piece.count);
  }
}

__device__ MxScale scale_of(MxFormat format, const MxScales& scales, const device::Tile& tile,
                            const Chunk& chunk) {
  const unsigned exponent =
      chunk.has_block ? std::to_integer<unsigned>(tile.piece.statistics[chunk.block]) : 0;
  return device::mx_scale(format, scales, exponent);
}

// Decodes a chunk of a message.
__device__ void decode_chunk(MxFormat format, const MxScale& scale, const Chunk& chunk,
                             const std::byte* piece, float (&values)[kLaneCodes]) {
  if (!scale.has_codes()) {
    const float all = scale.is_zero ? 0.0f : __uint_as_float(0x7fc00000u);
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) values[i] = all;
    return;
  }
  std::uint32_t codes[kLaneCodes];
  device::unpack_lane(piece + chunk.block * pack_bytes(format.width()), format.width(),
                      chunk.quarter, codes);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    values[i] = device::decode_element(format, scale, codes[i]);
  }
}

__device__ void encode_chunk(MxFormat format, const MxScale& scale, bool stretched,
                             const float (&x)[kLaneCodes], std::uint32_t (&codes)[kLaneCodes]) {
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    codes[i] = scale.has_codes() ? device::encode_element(format, scale, stretched, x[i]) : 0;
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads) read_peaks(Batch batch, std::byte* out) {
  const device::Tile tile = device::this_tile(batch, kTile);
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const Chunk chunk(tile, round);
    float x[kLaneCodes];
    load_chunk<kType>(tile, chunk, x);
    std::uint32_t peak = 0;
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) peak = max(peak, magnitude_bits(x[i]));
    peak = max(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
    peak = max(peak, __shfl_xor_sync(0xffffffffu, peak, 2));
    if (chunk.quarter == 0 && chunk.has_block) {
      out[tile.piece.first_block + chunk.block] = static_cast<std::byte>(peak >> 23);
    }
  }
}

// Adds the messages to the values. If kPublished, the sum is rounded to elements before the last
// message is added.
template <DataType kType, bool kPublished>
__device__ void write_elements(const Batch& batch, MxFormat format, const MxScales& scales,
                               const device::Incoming& in, const DeviceMessage& out) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const std::uint64_t out_at = out.piece_at[tile.index];
  const std::uint64_t in_at = in.count > 0 ? in.piece_at[tile.index] : 0;
  if (device::is_last_tile()) {
    const std::size_t blocks = (tile.piece.count + kMxBlock - 1) / kMxBlock;
    device::clear_after(out, out_at + blocks * pack_bytes(format.width()));
  }
  float x[kRounds][kLaneCodes];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    load_chunk<kType>(tile, Chunk(tile, round), x[round]);
  }
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const Chunk chunk(tile, round);
    const MxScale scale = scale_of(format, scales, tile, chunk);
    std::uint32_t codes[kLaneCodes];
    for (std::uint32_t m = 0; m < in.count; ++m) {
      if (kPublished && m + 1 == in.count) {
        encode_chunk(format, scale, true, x[round], codes);
#pragma unroll
        for (unsigned i = 0; i < kLaneCodes; ++i) {
          x[round][i] = device::decode_element(format, scale, codes[i]);
        }
      }
      float others[kLaneCodes];
      decode_chunk(format, scale, chunk, in.bytes[m] + in_at, others);
#pragma unroll
      for (unsigned i = 0; i < kLaneCodes; ++i) x[round][i] += others[i];
    }
    encode_chunk(format, scale, kPublished, x[round], codes);
    device::pack_lane(codes, format.width(), chunk.quarter, chunk.has_block,
                      out.bytes + out_at + chunk.block * pack_bytes(format.width()));
  }
}

template <DataType kType, MxFormat kFormat>
__global__ void __launch_bounds__(kThreads)
    write_mx(Batch batch, MxScales scales, device::Incoming in, DeviceMessage out) {
  write_elements<kType, false>(batch, kFormat, scales, in, out);
}

// A baseline; one kernel for all formats.
template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    write_published(Batch batch, MxFormat format, MxScales scales, device::Incoming in,
                    DeviceMessage out) {
  write_elements<kType, true>(batch, format, scales, in, out);
}

template <DataType kType, MxFormat kFormat>
__global__ void __launch_bounds__(kThreads)
    read_mx(Batch batch, MxScales scales, ConstDeviceMessage in, bool adds) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const std::byte* piece = in.bytes + in.piece_at[tile.index];
  float values[kRounds][kLaneCodes];
  if (adds) {
#pragma unroll
    for (unsigned round = 0; round < kRounds; ++round) {
      load_chunk<kType>(tile, Chunk(tile, round), values[round]);
    }
  }
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const Chunk chunk(tile, round);
    float decoded[kLaneCodes];
    decode_chunk(kFormat, scale_of(kFormat, scales, tile, chunk), chunk, piece, decoded);
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      decoded[i] = adds ? values[round][i] + decoded[i] : decoded[i];
    }
    store_chunk<kType>(decoded, tile, chunk);
  }
}

template <DataType kType, MxFormat kFormat>
__global__ void __launch_bounds__(kThreads)
    add_mx(Batch batch, MxScales scales, device::Incoming in) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const std::uint64_t in_at = in.piece_at[tile.index];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const Chunk chunk(tile, round);
    const MxScale scale = scale_of(kFormat, scales, tile, chunk);
    float sums[kLaneCodes];
    load_chunk<kType>(tile, chunk, sums);
    for (std::uint32_t m = 0; m < in.count; ++m) {
      float others[kLaneCodes];
      decode_chunk(kFormat, scale, chunk, in.bytes[m] + in_at, others);
#pragma unroll
      for (unsigned i = 0; i < kLaneCodes; ++i) sums[i] += others[i];
    }
    store_chunk<kType>(sums, tile, chunk);
  }
}

template <MxFormat kFormat>
class MxDevice final : public AddingCodec {
 public:
  // A negative `headroom` is derived from the number of ranks.
  MxDevice(int headroom, bool published) : headroom_(headroom), published_(published) {}

  Status statistics(const Batch& batch, std::byte* out, std::byte* /*scratch*/,
                    cudaStream_t stream) const override {
    if (batch.piece_count == 0) return {};
    return with_type(batch.type, [&](auto type) {
      return launch("mxfp statistics", read_peaks<type()>, device::tiles_of(batch, kTile), kThreads,
                    stream, batch, out);
    });
  }

  Status combine_statistics(const Batch& /*batch*/, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override {
    return device::combine_max<std::uint8_t>(ranks, by_rank, size, combined, stream);
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    const unsigned grid = device::tiles_of(batch, kTile);
    return with_type(batch.type, [&](auto type) {
      if (published_) {
        return launch("mxfp encode", write_published<type()>, grid, kThreads, stream, batch,
                      kFormat, scales(batch.ranks), in, out);
      }
      return launch("mxfp encode", write_mx<type(), kFormat>, grid, kThreads, stream, batch,
                    scales(batch.ranks), in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("mxfp decode", read_mx<type(), kFormat>, device::tiles_of(batch, kTile),
                    kThreads, stream, batch, scales(batch.ranks), in, adds);
    });
  }

  Status add(const Batch& batch, const device::Incoming& in, cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("mxfp fold_add", add_mx<type(), kFormat>, device::tiles_of(batch, kTile),
                    kThreads, stream, batch, scales(batch.ranks), in);
    });
  }

 private:
  MxScales scales(std::uint32_t ranks) const {
    const unsigned growth = growth_of(ranks);
    if (published_) return {0, kMxMaxExponent - growth, published_stretch(ranks)};
    unsigned headroom = kFormat.width() == kE2m1.width() ? (growth + 1) / 2 : growth;
    if (headroom_ >= 0) headroom = static_cast<unsigned>(headroom_);
    return {headroom, kMxMaxExponent - std::max(headroom, growth), 1};
  }

  // The same as in codec/mx/mx.cc.
  static float published_stretch(std::uint32_t ranks) {
    const double n = ranks;
    double peak = 0;
    switch (kFormat.width()) {
      case kE4m3.width(): peak = 335 / n; break;
      case kE3m2.width(): peak = 20 / n; break;
      default: peak = 6 / std::sqrt(2 * n); break;
    }
    const double stretch = std::ldexp(1.0, kFormat.max_exponent() + 1) / peak;
    return bfloat16_to_float(float_to_bfloat16(static_cast<float>(stretch)));
  }

  const int headroom_;
  const bool published_;
};

template <MxFormat kFormat>
DeviceCodecResult make_mx(const Codec& codec) {
  const Expected<double> headroom = codec.spec().number("headroom", -1, 0, 16);
  if (!headroom) return headroom.status();
  const Expected<bool> published = codec.spec().flag("published");
  if (!published) return published.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<MxDevice<kFormat>>(static_cast<int>(*headroom), *published));
}

}  // namespace

DeviceCodecResult make_device_mxfp8(const Codec& codec) { return make_mx<kE4m3>(codec); }
DeviceCodecResult make_device_mxfp6(const Codec& codec) { return make_mx<kE3m2>(codec); }
DeviceCodecResult make_device_mxfp4(const Codec& codec) { return make_mx<kE2m1>(codec); }

}  // namespace nf::cuda
