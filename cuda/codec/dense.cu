// fp32, bf16 and fp16 on the device (docs/codecs/dense.md).
#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/rows.cuh"

namespace nf::cuda {
namespace {

using device::kRun;
using device::load_run;
using device::Row;
using device::store_run;

constexpr unsigned kThreads = 256;
constexpr unsigned kRounds = 2;  // runs per thread
constexpr std::uint32_t kTile = kThreads * kRun * kRounds;
constexpr std::uint32_t kSumNanBits = 0x7fc00000u;

// The first value of this thread's run in a round.
__device__ std::uint32_t first_of(const device::Tile& tile, unsigned round) {
  return tile.first + (round * kThreads + threadIdx.x) * kRun;
}

// Adds the messages to the sums of a tile.
template <DataType kWire>
__device__ void add_messages(const device::Tile& tile, const device::Incoming& in,
                             float (&sums)[kRounds][kRun]) {
  for (std::uint32_t m = 0; m < in.count; ++m) {
    const Row<const void> from(in.bytes[m] + in.piece_at[tile.index], tile.piece.count);
#pragma unroll
    for (unsigned round = 0; round < kRounds; ++round) {
      float others[kRun];
      load_run<kWire>(from, first_of(tile, round), others);
#pragma unroll
      for (unsigned i = 0; i < kRun; ++i) sums[round][i] += others[i];
    }
  }
}

template <DataType kType, DataType kWire>
__global__ void __launch_bounds__(kThreads)
    write_values(Batch batch, device::Incoming in, DeviceMessage out) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const std::uint32_t held = tile.piece.count;
  const Row<const void> own(tile.piece.values, held);
  const Row<void> to(out.bytes + out.piece_at[tile.index], held);
  if (device::is_last_tile()) {
    device::clear_after(out, out.piece_at[tile.index] + std::size_t{held} * size_of(kWire));
  }
  float sums[kRounds][kRun];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::uint32_t first = first_of(tile, round);
    load_run<kType>(own, first, sums[round]);
    if constexpr (kType == DataType::kFloat16 && kWire == DataType::kFloat32) {
      device::keep_nan_bits(own, first, sums[round]);
    }
  }
  add_messages<kWire>(tile, in, sums);
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    if (kWire == DataType::kFloat32 && in.count > 0) {
#pragma unroll
      for (unsigned i = 0; i < kRun; ++i) {
        if (sums[round][i] != sums[round][i]) sums[round][i] = __uint_as_float(kSumNanBits);
      }
    }
    store_run<kWire>(sums[round], to, first_of(tile, round));
  }
}

template <DataType kType, DataType kWire>
__global__ void __launch_bounds__(kThreads) add_values(Batch batch, device::Incoming in) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const std::uint32_t held = tile.piece.count;
  const Row<const void> own(tile.piece.values, held);
  float sums[kRounds][kRun];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    load_run<kType>(own, first_of(tile, round), sums[round]);
  }
  add_messages<kWire>(tile, in, sums);
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    store_run<kType>(sums[round], Row<void>(tile.piece.values, held), first_of(tile, round));
  }
}

template <DataType kType, DataType kWire>
__global__ void __launch_bounds__(kThreads)
    read_values(Batch batch, ConstDeviceMessage in, bool adds) {
  const device::Tile tile = device::this_tile(batch, kTile);
  const Row<void> own(tile.piece.values, tile.piece.count);
  const Row<const void> from(in.bytes + in.piece_at[tile.index], tile.piece.count);
  float values[kRounds][kRun];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    load_run<kWire>(from, first_of(tile, round), values[round]);
  }
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::uint32_t first = first_of(tile, round);
    if (adds) {
      float old[kRun];
      load_run<kType>({tile.piece.values, tile.piece.count}, first, old);
#pragma unroll
      for (unsigned i = 0; i < kRun; ++i) values[round][i] = old[i] + values[round][i];
    }
    store_run<kType>(values[round], own, first);
  }
}

template <DataType kWire>
class DenseDevice final : public AddingCodec {
 protected:
  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("dense encode", write_values<type(), kWire>, device::tiles_of(batch, kTile),
                    kThreads, stream, batch, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("dense decode", read_values<type(), kWire>, device::tiles_of(batch, kTile),
                    kThreads, stream, batch, in, adds);
    });
  }

  Status add(const Batch& batch, const device::Incoming& in, cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("dense fold_add", add_values<type(), kWire>, device::tiles_of(batch, kTile),
                    kThreads, stream, batch, in);
    });
  }
};

}  // namespace

DeviceCodecResult make_device_fp32(const Codec& /*codec*/) {
  return std::unique_ptr<DeviceCodec>(std::make_unique<DenseDevice<DataType::kFloat32>>());
}
DeviceCodecResult make_device_bf16(const Codec& /*codec*/) {
  return std::unique_ptr<DeviceCodec>(std::make_unique<DenseDevice<DataType::kBfloat16>>());
}
DeviceCodecResult make_device_fp16(const Codec& /*codec*/) {
  return std::unique_ptr<DeviceCodec>(std::make_unique<DenseDevice<DataType::kFloat16>>());
}

}  // namespace nf::cuda
