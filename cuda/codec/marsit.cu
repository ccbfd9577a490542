// marsit on the device (docs/codecs/marsit.md): messages are those of one g_binary contribution; if
// two bits differ, one of them is taken at random.
#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/g_binary.cuh"
#include "cuda/device/sign_decode.cuh"

namespace nf::cuda {
namespace {

using device::kLaneCodes;
using device::kSignChunks;
using device::kSignThreads;
using device::SignBlock;
using device::SignLayout;
using SignIn = device::SignWire<const std::byte>;
using SignOut = device::SignWire<std::byte>;

// The layout of every message, for any number of contributions.
constexpr SignLayout layout_of_one() { return SignLayout(SignFormat{}); }

// Two messages to merge.
struct Pair {
  std::uint32_t first = 0;  // contributions
  std::uint32_t second = 0;
  std::uint32_t encoder = 0;  // of the merged message
};

// The bits of chunk `c` in the merged message.
__device__ std::uint32_t merge_chunk(const Batch& batch, const SignBlock& block, unsigned c,
                                     const Pair& pair, std::uint32_t first, std::uint32_t second) {
  const std::uint64_t total = std::uint64_t{pair.first} + pair.second;
  // Draws below it take the first message's bit: its share of the contributions.
  const auto threshold =
      static_cast<std::uint32_t>(((std::uint64_t{pair.first} << 16) + total / 2) / total);
  DrawStream stream(batch.seed, batch.step, block.piece.parameter, pair.encoder,
                    DrawPurpose::kMerge);
  // One rank may merge several times in a step; `total` differs each time.
  stream.key = mix64(stream.key ^ total);
  const std::uint64_t element = block.element(c * kLaneCodes);
  const device::ChunkDraws draws(DrawKey(stream, element / kDrawBlock), element);
  std::uint32_t taken = 0;  // from the second message
#pragma unroll
  for (unsigned i = 0; i < kLaneCodes; ++i) {
    taken |= (draws.draw(i) >= threshold ? 1u : 0u) << i;
  }
  return (first & ~taken) | (second & taken);
}

// Merges in order: the first message, the values, then the other messages.
struct MergingSum {
  static constexpr bool kAdds = true;
  SignLayout layout_in = layout_of_one();
  SignLayout layout = layout_of_one();

  __device__ void write(const Batch& batch, const SignBlock& block, unsigned c,
                        const device::Incoming& in, std::uint64_t piece_at, std::uint32_t encoder,
                        std::uint32_t bits, const SignOut& to) const {
    if (!block.has_pack(c)) return;
    std::uint32_t sum = 1;
    for (std::uint32_t m = 0; m < in.count; ++m) {
      const std::uint32_t other =
          device::load_bits(SignIn(layout_in, block, in.bytes[m] + piece_at), c);
      bits = m == 0 ? merge_chunk(batch, block, c, {in.contributions, sum, encoder}, other, bits)
                    : merge_chunk(batch, block, c, {sum, in.contributions, encoder}, bits, other);
      sum += in.contributions;
    }
    device::store_bits(bits, block, c, to);
  }
};

__global__ void __launch_bounds__(kSignThreads)
    merge_bits(Batch batch, ConstDeviceMessage first, ConstDeviceMessage second,
               DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, 1);
  constexpr SignLayout kLayout = layout_of_one();
  device::clear_gaps(tile, kLayout, out);
  if (tile.first * std::size_t{kSignBlock} >= tile.piece.count) return;
  const SignBlock block(tile);
  const SignIn one(kLayout, block, first.bytes + first.piece_at[tile.index]);
  const SignIn two(kLayout, block, second.bytes + second.piece_at[tile.index]);
  const SignOut to(kLayout, block, out.bytes + out.piece_at[tile.index]);
  if (threadIdx.x == 0) {
    device::store_scale(device::load_scale(one.scale) + device::load_scale(two.scale), to.scale);
  }
  const Pair pair{first.origin.contributions, second.origin.contributions, out.origin.encoder};
#pragma unroll 1
  for (unsigned round = 0; round < kSignChunks; ++round) {
    const unsigned c = device::chunk_of(round);
    if (!block.has_pack(c)) return;
    const std::uint32_t bits =
        merge_chunk(batch, block, c, pair, device::load_bits(one, c), device::load_bits(two, c));
    device::store_bits(bits, block, c, to);
  }
}

class MarsitDevice final : public FoldingCodec {
 public:
  Status merge(const Batch& batch, const ConstDeviceMessage& first,
               const ConstDeviceMessage& second, const DeviceMessage& out,
               cudaStream_t stream) const override {
    if (batch.piece_count == 0) return clear(out, stream);
    return launch("marsit merge", merge_bits, device::tiles_of(batch, 1), kSignThreads, stream,
                  batch, first, second, out);
  }

 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    const unsigned grid = device::tiles_of(batch, device::kStagedBlocks);
    return with_type(batch.type, [&](auto type) {
      if (in.count == 0) {
        return launch("marsit encode", device::write_binary<type(), device::NoSum>, grid,
                      kSignThreads, stream, batch, device::NoSum{}, in, out);
      }
      return launch("marsit fold_encode", device::write_binary<type(), MergingSum>, grid,
                    kSignThreads, stream, batch, MergingSum{}, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("marsit decode", device::read_signs<type(), true>, device::tiles_of(batch, 1),
                    kSignThreads, stream, batch, layout_of_one(), false, in, adds);
    });
  }
};

}  // namespace

DeviceCodecResult make_device_marsit(const Codec& /*codec*/) {
  return std::unique_ptr<DeviceCodec>(std::make_unique<MarsitDevice>());
}

}  // namespace nf::cuda
