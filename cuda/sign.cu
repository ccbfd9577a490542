// g_binary and g_ternary on the device (docs/codecs/g_binary.md, g_ternary.md).
#include "cuda/device/g_binary.cuh"
#include "cuda/folding_codec.h"
#include "cuda/make_device_codecs.h"

namespace nf::cuda {
namespace {

using device::kLaneCodes;
using device::kSignChunks;
using device::kSignThreads;
using device::SignBlock;
using device::SignOptions;
using SignIn = device::SignWire<const std::byte>;
using SignOut = device::SignWire<std::byte>;
using Codes = std::uint32_t[kLaneCodes];

constexpr unsigned kBlock = kSignBlock;

__device__ std::uint32_t ternary_digit(float x, float threshold) {
  if (!(fabsf(x) > threshold)) return kClosedTrit;
  return x > 0 ? 2 : 0;
}

// Messages whose codes add.
struct CountSum {
  SignOptions options;

  __device__ SignFormat format(std::uint32_t contributions, std::uint32_t ranks) const {
    return options.format(contributions, ranks);
  }

  __device__ void add(const Batch& batch, const SignBlock& block, unsigned c,
                      const device::Incoming& in, std::uint64_t piece_at, std::uint32_t /*encoder*/,
                      Codes& codes) const {
    const SignFormat format_in = format(in.contributions, batch.ranks);
    for (std::uint32_t m = 0; m < in.count; ++m) {
      Codes others;
      device::read_chunk(SignIn(format_in, block, in.bytes[m] + piece_at), c, others);
#pragma unroll
      for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] += others[i];
    }
  }
};

// Digits of one rank, five a byte.
__device__ void write_trits(const SignBlock& block, const float* staged, float threshold,
                            std::byte* codes) {
  constexpr unsigned kUnitWords = kTritUnitBytes / 4;
  for (unsigned w = threadIdx.x; w / kUnitWords * kTritUnit < block.held; w += kSignThreads) {
    const unsigned first = w / kUnitWords * kTritUnit + w % kUnitWords * 4;
    std::uint32_t word = 0;
#pragma unroll
    for (unsigned i = kTritsPerByte; i-- > 0;) {
      word *= 3;
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const float x = staged[device::staged_at(kBlock, first + i * kTritUnitBytes + j)];
        word += ternary_digit(x, threshold) << (8 * j);
      }
    }
    reinterpret_cast<std::uint32_t*>(codes)[w] = word;
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kSignThreads)
    write_ternary(Batch batch, CountSum sum, device::Incoming in, DeviceMessage out) {
  __shared__ __align__(8) float staged[device::staged_floats(kBlock)];
  __shared__ float mean;
  const device::Tile tile = device::this_tile(batch, 1);
  const SignFormat format = sum.format(out.origin.contributions, batch.ranks);
  device::clear_gaps(tile, format, out);
  if (tile.first * std::size_t{kBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignOut to(format, block, out.bytes + out.piece_at[tile.index]);
  const std::uint64_t in_at = in.count > 0 ? in.piece_at[tile.index] : 0;

  device::ChunkWords<kType> words[kSignChunks];
  device::load_block<kType>(block, words);
#pragma unroll
  for (unsigned round = 0; round < kSignChunks; ++round) {
    float x[kLaneCodes];
    device::widen<kType>(words[round], x);
    device::stage(x, kBlock, device::chunk_of(round) * kLaneCodes, staged);
  }
  __syncthreads();
  if (device::is_summing()) {
    const float total = device::running_sum(staged, kBlock, [](float x) { return fabsf(x); });
    if (threadIdx.x % 32 == 0) mean = __fdiv_rn(total, static_cast<float>(block.held));
  }
  __syncthreads();
  const float threshold = __fmul_rn(sum.options.tau, mean);
  if (device::is_summing()) {
    unsigned gates = 0;
    const float open = device::running_sum(staged, kBlock, [&](float x) {
      const bool is_open = fabsf(x) > threshold;
      gates += is_open ? 1 : 0;
      return is_open ? fabsf(x) : 0.0f;
    });
#pragma unroll
    for (unsigned half = device::kRunningSums / 2; half > 0; half /= 2) {
      gates += __shfl_down_sync(0xffffffffu, gates, half, device::kRunningSums);
    }
    if (threadIdx.x % 32 == 0) {
      const float scale = gates == 0 ? 0.0f : __fdiv_rn(open, static_cast<float>(gates));
      device::write_scale(isfinite(mean) ? scale : mean, in, in_at, block, to);
    }
  }
  if (format.has_trits()) {
    write_trits(block, staged, threshold, to.codes);
    return;
  }
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = device::chunk_of(round);
    Codes codes;
#pragma unroll
    for (unsigned i = 0; i < kLaneCodes; ++i) {
      codes[i] = ternary_digit(staged[device::staged_at(kBlock, c * kLaneCodes + i)], threshold);
    }
    if (c * kLaneCodes < block.held) {
      sum.add(batch, block, c, in, in_at, out.origin.encoder, codes);
    }
    device::write_chunk(batch, block, c, codes, to);
  }
}

__global__ void __launch_bounds__(kSignThreads)
    merge_signs(Batch batch, SignOptions options, ConstDeviceMessage first,
                ConstDeviceMessage second, DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, 1);
  const SignFormat format = options.format(out.origin.contributions, batch.ranks);
  device::clear_gaps(tile, format, out);
  if (tile.first * std::size_t{kBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignIn one(options.format(first.origin.contributions, batch.ranks), block,
                   first.bytes + first.piece_at[tile.index]);
  const SignIn two(options.format(second.origin.contributions, batch.ranks), block,
                   second.bytes + second.piece_at[tile.index]);
  const SignOut to(format, block, out.bytes + out.piece_at[tile.index]);
  if (threadIdx.x == 0) {
    device::store_scale(device::load_scale(one.scale) + device::load_scale(two.scale), to.scale);
  }
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = device::chunk_of(round);
    Codes codes = {};
    if (c * kLaneCodes < block.held) {
      Codes others;
      device::read_chunk(one, c, codes);
      device::read_chunk(two, c, others);
#pragma unroll
      for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] += others[i];
    }
    device::write_chunk(batch, block, c, codes, to);
  }
}

class SignDevice final : public FoldingCodec {
 public:
  explicit SignDevice(SignOptions options) : options_(options) {}

  Status merge(const Batch& batch, const ConstDeviceMessage& first,
               const ConstDeviceMessage& second, const DeviceMessage& out,
               cudaStream_t stream) const override {
    if (batch.piece_count == 0) return clear(out, stream);
    return launch("merge of signs", merge_signs, device::tiles_of(batch, 1), kSignThreads, stream,
                  batch, options_, first, second, out);
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      const auto kernel =
          options_.most_digit == 1 ? device::write_binary<type(), CountSum> : write_ternary<type()>;
      return launch("encode of signs", kernel, device::tiles_of(batch, 1), kSignThreads, stream,
                    batch, CountSum{options_}, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("decode of signs", device::read_signs<type()>, device::tiles_of(batch, 1),
                    kSignThreads, stream, batch, options_, in, adds);
    });
  }

 private:
  const SignOptions options_;
};

}  // namespace

DeviceCodecResult make_device_g_binary(const Codec& codec) {
  const Expected<bool> majority = codec.spec().flag("majority");
  if (!majority) return majority.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<SignDevice>(SignOptions{.most_digit = 1, .majority = *majority}));
}

DeviceCodecResult make_device_g_ternary(const Codec& codec) {
  const Expected<double> tau = codec.spec().number("tau", 0.7, 0, 10);
  if (!tau) return tau.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<SignDevice>(SignOptions{.most_digit = 2, .tau = static_cast<float>(*tau)}));
}

}  // namespace nf::cuda
