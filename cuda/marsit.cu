// marsit on the device (docs/codecs/marsit.md): the messages of one g_binary contribution, and of
// two bits that differ one is taken at random.
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

// Of every message, however many it sums.
constexpr SignFormat format_of_one() { return {.most_digit = 1, .contributions = 1}; }

// Two messages on their way to become one.
struct Pair {
  std::uint32_t first = 0;  // contributions
  std::uint32_t second = 0;
  std::uint32_t encoder = 0;  // of the message that they make
};

// Makes the bits of chunk `c` in `first` those of the merged message.
__device__ void merge_chunk(const Batch& batch, const SignBlock& block, unsigned c,
                            const Pair& pair, const Codes& second, Codes& first) {
  const std::uint64_t total = std::uint64_t{pair.first} + pair.second;
  // Of 2^16 draws those that take the first one's bit: its share of the contributions.
  const auto threshold =
      static_cast<std::uint32_t>(((std::uint64_t{pair.first} << 16) + total / 2) / total);
  DrawStream stream(batch.seed, batch.step, block.piece.parameter, pair.encoder,
                    DrawPurpose::kMerge);
  // One rank may merge several times in a step; the sum grows every time.
  stream.key = mix64(stream.key ^ total);
  const std::uint64_t element = block.element(c * kLaneCodes);
  const device::ChunkDraws draws(DrawKey(stream, element / kDrawBlock), element);
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    if (draws.draw(i) >= threshold) first[i] = second[i];
  }
}

// A message comes before the values that are added to it, and what has been made of them before
// the next message.
struct MergingSum {
  __device__ static SignFormat format(std::uint32_t /*contributions*/, std::uint32_t /*ranks*/) {
    return format_of_one();
  }

  __device__ static void add(const Batch& batch, const SignBlock& block, unsigned c,
                             const device::Incoming& in, std::uint64_t piece_at,
                             std::uint32_t encoder, Codes& codes) {
    std::uint32_t sum = 1;
    for (std::uint32_t m = 0; m < in.count; ++m) {
      Codes others;
      device::read_chunk(SignIn(format_of_one(), block, in.bytes[m] + piece_at), c, others);
      if (m == 0) {
        merge_chunk(batch, block, c, {in.contributions, sum, encoder}, codes, others);
#pragma unroll
        for (unsigned i = 0; i < kLaneCodes; ++i) codes[i] = others[i];
      } else {
        merge_chunk(batch, block, c, {sum, in.contributions, encoder}, others, codes);
      }
      sum += in.contributions;
    }
  }
};

__global__ void __launch_bounds__(kSignThreads)
    merge_bits(Batch batch, ConstDeviceMessage first, ConstDeviceMessage second,
               DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, 1);
  device::clear_gaps(tile, format_of_one(), out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignIn one(format_of_one(), block, first.bytes + first.piece_at[tile.index]);
  const SignIn two(format_of_one(), block, second.bytes + second.piece_at[tile.index]);
  const SignOut to(format_of_one(), block, out.bytes + out.piece_at[tile.index]);
  if (threadIdx.x == 0) {
    device::store_scale(device::load_scale(one.scale) + device::load_scale(two.scale), to.scale);
  }
  const Pair pair{first.origin.contributions, second.origin.contributions, out.origin.encoder};
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = device::chunk_of(round);
    Codes codes = {};
    if (c * kLaneCodes < block.held) {
      Codes others;
      device::read_chunk(one, c, codes);
      device::read_chunk(two, c, others);
      merge_chunk(batch, block, c, pair, others, codes);
    }
    device::write_chunk(batch, block, c, codes, to);
  }
}

class MarsitDevice final : public FoldingCodec {
 public:
  Status merge(const Batch& batch, const ConstDeviceMessage& first,
               const ConstDeviceMessage& second, const DeviceMessage& out,
               cudaStream_t stream) const override {
    if (batch.piece_count == 0) return clear(out, stream);
    return launch("merge of marsit", merge_bits, device::tiles_of(batch, 1), kSignThreads, stream,
                  batch, first, second, out);
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("encode of marsit", device::write_binary<type(), MergingSum>,
                    device::tiles_of(batch, 1), kSignThreads, stream, batch, MergingSum{}, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    ConstDeviceMessage signs = in;
    signs.origin.contributions = 1;
    return with_type(batch.type, [&](auto type) {
      return launch("decode of marsit", device::read_signs<type()>, device::tiles_of(batch, 1),
                    kSignThreads, stream, batch, SignOptions{}, signs, adds);
    });
  }
};

}  // namespace

DeviceCodecResult make_device_marsit(const Codec& /*codec*/) {
  return std::unique_ptr<DeviceCodec>(std::make_unique<MarsitDevice>());
}

}  // namespace nf::cuda
