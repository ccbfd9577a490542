// g_binary and g_ternary on the device (docs/codecs/g_binary.md, g_ternary.md).
#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/g_binary.cuh"
#include "cuda/device/sign_decode.cuh"

namespace nf::cuda {
namespace {

using device::CodePairs;
using device::kLaneCodes;
using device::kSignChunks;
using device::kSignThreads;
using device::kStagedBlocks;
using device::SignBlock;
using device::SignLayout;
using SignIn = device::SignWire<const std::byte>;
using SignOut = device::SignWire<std::byte>;

// The options of g_binary, g_binary+majority and g_ternary.
struct SignOptions {
  std::uint32_t max_digit = 1;
  float tau = 0;
  bool majority = false;

  SignLayout layout(std::uint32_t contributions, std::uint32_t ranks) const {
    return SignLayout({.max_digit = max_digit,
                       .contributions = contributions,
                       .voted = majority && contributions == ranks});
  }
};

// Adds messages by adding their codes.
struct CountSum {
  static constexpr bool kAdds = true;
  SignLayout layout_in;
  SignLayout layout;

  // Adds the messages to the digits of a chunk and writes the sum.
  __device__ void write_codes(const Batch& batch, const SignBlock& block, unsigned c,
                              const device::Incoming& in, std::uint64_t piece_at, CodePairs& pairs,
                              const SignOut& to) const {
    const auto wire = [&](std::uint32_t m) {
      return SignIn(layout_in, block, in.bytes[m] + piece_at);
    };
    if (block.has_pack(c)) {
      if (layout_in.width == 1) {
        // Without a branch, so that several loads are in flight.
#pragma unroll 4
        for (std::uint32_t m = 0; m < in.count; ++m) {
          device::add_bits(device::load_bits(wire(m), c), 0, pairs);
        }
      } else {
        for (std::uint32_t m = 0; m < in.count; ++m) device::add_chunk(wire(m), c, pairs);
      }
    }
    device::write_chunk(batch, block, c, layout, pairs, to);
  }

  __device__ void write(const Batch& batch, const SignBlock& block, unsigned c,
                        const device::Incoming& in, std::uint64_t piece_at,
                        std::uint32_t /*encoder*/, std::uint32_t bits, const SignOut& to) const {
    CodePairs pairs = {};
    device::add_bits(bits, 0, pairs);
    write_codes(batch, block, c, in, piece_at, pairs, to);
  }
};

// Adds the digit of a value minus that of a closed gate, times `unit`.
__device__ void add_ternary(float x, float threshold, std::uint32_t unit, std::uint32_t& sum) {
  if (x > threshold) sum += unit;
  if (x < -threshold) sum -= unit;
}

// Writes the digits of one rank, five per byte; called by the threads that pack.
template <DataType kType>
__device__ void write_trits(const SignBlock& block, const device::Staged<kType>& staged, unsigned b,
                            float threshold, std::byte* codes) {
  constexpr unsigned kUnitWords = kTritUnitBytes / 4;
  for (unsigned w = device::packing_thread(); w / kUnitWords * kTritUnit < block.held;
       w += device::kPackingThreads) {
    const unsigned first = w / kUnitWords * kTritUnit + w % kUnitWords * 4;
    // Bytes are accumulated as floats, which comparisons yield directly. All gates start closed.
    constexpr float kClosed = kMaxTritByte / 2;
    float sums[4] = {kClosed, kClosed, kClosed, kClosed};
    float power = 1;
#pragma unroll
    for (unsigned i = 0; i < kTritsPerByte; ++i) {
      std::uint32_t words[device::kValueWords<kType, 4>];
      float x[4];
      device::load_words(staged.at(b, first + i * kTritUnitBytes), words);
      device::widen<kType>(words, x);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        sums[j] = __fmaf_rn(x[j] > threshold ? 1.0f : 0.0f, power, sums[j]);
        sums[j] = __fmaf_rn(x[j] < -threshold ? 1.0f : 0.0f, -power, sums[j]);
      }
      power *= 3;
    }
    std::uint32_t bytes = 0;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) bytes |= static_cast<std::uint32_t>(sums[j]) << (8 * j);
    reinterpret_cast<std::uint32_t*>(codes)[w] = bytes;
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kSignThreads)
    write_ternary(Batch batch, CountSum sum, float tau, device::Incoming in, DeviceMessage out) {
  __shared__ device::Staged<kType> staged;
  __shared__ float thresholds[kStagedBlocks];
  const device::Tile tile = device::this_tile(batch, kStagedBlocks);
  device::clear_gaps(tile, sum.layout, out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  device::start_staging(tile, staged);
  std::byte* message = out.bytes + out.piece_at[tile.index];
  std::uint64_t in_at = 0;
  if (in.count > 0) {
    in_at = in.piece_at[tile.index];
    device::prefetch_codes(tile, in, in_at, sum.layout_in);
  }
  device::finish_staging();

  const unsigned own = threadIdx.x % 32 / device::kRunningSums;
  float mean = 0;
  if (device::is_summing()) {
    const SignBlock block(tile, own);
    const float total = device::staged_sum(staged, [](float x, float& sum) { sum += fabsf(x); });
    mean = __fdiv_rn(total, static_cast<float>(block.held));
    if (threadIdx.x % device::kRunningSums == 0) thresholds[own] = __fmul_rn(tau, mean);
  }
  __syncthreads();
  if (device::is_summing()) {
    const SignBlock block(tile, own);
    const float threshold = thresholds[own];
    float gates = 0;
    // In a block with a non-finite mean, 0 * x may be NaN, but then the scale is not used.
    const float open = device::staged_sum(staged, [&](float x, float& sum) {
      const float is_open = fabsf(x) > threshold ? 1.0f : 0.0f;
      sum = __fmaf_rn(is_open, fabsf(x), sum);
      gates += is_open;
    });
    gates = device::fold_running_sums(gates);
    if (threadIdx.x % device::kRunningSums != 0 || block.held == 0) return;
    const float scale = gates == 0 ? 0.0f : __fdiv_rn(open, gates);
    device::write_scale(isfinite(mean) ? scale : mean, in, in_at, block,
                        SignOut(sum.layout, block, message));
    return;
  }
#pragma unroll 1
  for (unsigned b = 0; b < kStagedBlocks; ++b) {
    const SignBlock block(tile, b);
    const SignOut to(sum.layout, block, message);
    const float threshold = thresholds[b];
    if (sum.layout.width == 0) {
      write_trits(block, staged, b, threshold, to.codes);
      continue;
    }
#pragma unroll 1
    for (unsigned c = device::packing_thread(); c < device::kBlockChunks;
         c += device::kPackingThreads) {
      device::ChunkWords<kType> words;
      float x[kLaneCodes];
      device::load_words(staged.at(b, c * kLaneCodes), words);
      device::widen<kType>(words, x);
      CodePairs pairs;
#pragma unroll
      for (unsigned w = 0; w < device::kCodePairs; ++w) {
        pairs[w] = kClosedTrit * device::kBothHalves;
        add_ternary(x[device::first_of_pair(w)], threshold, 1, pairs[w]);
        add_ternary(x[device::first_of_pair(w) + 2], threshold, 1u << 16, pairs[w]);
      }
      sum.write_codes(batch, block, c, in, in_at, pairs, to);
    }
  }
}

__global__ void __launch_bounds__(kSignThreads)
    merge_signs(Batch batch, SignLayout layout_one, SignLayout layout_two, SignLayout layout,
                ConstDeviceMessage first, ConstDeviceMessage second, DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, 1);
  device::clear_gaps(tile, layout, out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignIn one(layout_one, block, first.bytes + first.piece_at[tile.index]);
  const SignIn two(layout_two, block, second.bytes + second.piece_at[tile.index]);
  const SignOut to(layout, block, out.bytes + out.piece_at[tile.index]);
  if (threadIdx.x == 0) {
    device::store_scale(device::load_scale(one.scale) + device::load_scale(two.scale), to.scale);
  }
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = device::chunk_of(round);
    CodePairs pairs = {};
    if (block.has_pack(c)) {
      device::add_chunk(one, c, pairs);
      device::add_chunk(two, c, pairs);
    }
    device::write_chunk(batch, block, c, layout, pairs, to);
  }
}

class SignDevice final : public FoldingCodec {
 public:
  explicit SignDevice(SignOptions options) : options_(options) {}

  Status merge(const Batch& batch, const ConstDeviceMessage& first,
               const ConstDeviceMessage& second, const DeviceMessage& out,
               cudaStream_t stream) const override {
    if (batch.piece_count == 0) return clear(out, stream);
    return launch("sign merge", merge_signs, device::tiles_of(batch, 1), kSignThreads, stream,
                  batch, options_.layout(first.origin.contributions, batch.ranks),
                  options_.layout(second.origin.contributions, batch.ranks),
                  options_.layout(out.origin.contributions, batch.ranks), first, second, out);
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    const unsigned grid = device::tiles_of(batch, kStagedBlocks);
    const CountSum sum{options_.layout(in.contributions, batch.ranks),
                       options_.layout(out.origin.contributions, batch.ranks)};
    return with_type(batch.type, [&](auto type) {
      if (options_.max_digit == 2) {
        return launch("g_ternary encode", write_ternary<type()>, grid, kSignThreads, stream, batch,
                      sum, options_.tau, in, out);
      }
      if (in.count == 0) {
        return launch("g_binary encode", device::write_binary<type(), device::NoSum>, grid,
                      kSignThreads, stream, batch, device::NoSum{}, in, out);
      }
      return launch("g_binary fold_encode", device::write_binary<type(), CountSum>, grid,
                    kSignThreads, stream, batch, sum, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    const SignLayout layout = options_.layout(in.origin.contributions, batch.ranks);
    const bool is_open = options_.majority && !layout.format.voted;
    return with_type(batch.type, [&](auto type) {
      // With one contribution the bits are the vote.
      const auto kernel =
          layout.width == 1 ? device::read_signs<type(), true> : device::read_signs<type(), false>;
      return launch("sign decode", kernel, device::tiles_of(batch, 1), kSignThreads, stream, batch,
                    layout, is_open, in, adds);
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
      std::make_unique<SignDevice>(SignOptions{.max_digit = 1, .majority = *majority}));
}

DeviceCodecResult make_device_g_ternary(const Codec& codec) {
  const Expected<double> tau = codec.spec().number("tau", 0.7, 0, 10);
  if (!tau) return tau.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<SignDevice>(SignOptions{.max_digit = 2, .tau = static_cast<float>(*tau)}));
}

}  // namespace nf::cuda
