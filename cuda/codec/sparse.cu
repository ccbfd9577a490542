// omnireduce and topkc on the device (docs/codecs/omnireduce.md, docs/codecs/topkc.md): eight
// values per thread, between the blocks that are sent and the message.
#include <algorithm>

#include "cuda/codec/folding_codec.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/codec/sparse_statistics.h"
#include "cuda/device/max_of_ranks.cuh"
#include "cuda/device/rows.cuh"
#include "cuda/device/sparse.cuh"

namespace nf::cuda {
namespace {

using device::kRun;
using device::load_run;
using device::Row;
using device::SparseBlock;
using device::store_run;

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kNanBits = 0x7fc00000u;

// The blocks of a batch, within its bounds, as runs of values that threads process in a strided
// loop.
struct Runs {
  BatchBounds bounds;
  unsigned bits = 0;  // of a run's index in its block
  std::uint64_t count = 0;

  __device__ Runs(const SparseShape& shape, const Batch& batch)
      : bounds{.piece_count = batch.piece_count, .blocks = batch.blocks} {
    if (batch.bounds != nullptr) bounds = *batch.bounds;
    while (kRun << bits < shape.block) ++bits;
    count = std::uint64_t{bounds.blocks} << bits;
  }

  static __device__ std::uint64_t first() {
    return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  }
  static __device__ std::uint64_t stride() { return std::uint64_t{gridDim.x} * kThreads; }

  __device__ std::uint32_t block(std::uint64_t run) const {
    return bounds.first_block + static_cast<std::uint32_t>(run >> bits);
  }
  // The first value of a run in its block.
  __device__ std::uint32_t value(std::uint64_t run) const {
    return static_cast<std::uint32_t>(run & ((std::uint64_t{1} << bits) - 1)) * kRun;
  }
};

__device__ SparseBlock block_of(const SparseShape& shape, const Batch& batch, const Runs& runs,
                                std::uint32_t block) {
  return device::sparse_block(shape, batch.pieces + runs.bounds.first_piece,
                              runs.bounds.piece_count, block);
}

template <DataType kType>
__device__ std::byte* values_of(const SparseBlock& block) {
  return static_cast<std::byte*>(block.piece->values) + std::size_t{block.first} * size_of(kType);
}

// Decodes a run of a message.
__device__ void decode_run(const SparseShape& shape, const SparseBlock& block,
                           const SuperGroupOffsets& offsets, const std::byte* message,
                           std::uint32_t first, float (&values)[kRun]) {
  if (offsets.width != 0) {
    load_run<DataType::kBfloat16>(Row<const void>(message + offsets.codes, block.held), first,
                                  values);
    return;
  }
  const float all = block.key(shape) < shape.poison ? 0.0f : __uint_as_float(kNanBits);
#pragma unroll
  for (unsigned i = 0; i < kRun; ++i) values[i] = all;
}

// Adds the messages to a run of values.
__device__ void add_messages(const SparseShape& shape, const SparseBlock& block,
                             std::uint32_t number, const device::Incoming& in, std::uint32_t first,
                             float (&sums)[kRun]) {
  for (std::uint32_t m = 0; m < in.count; ++m) {
    float others[kRun];
    decode_run(shape, block, in.offsets[number], in.bytes[m], first, others);
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) sums[i] += others[i];
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    write_blocks(SparseShape shape, Batch batch, device::Incoming in, DeviceMessage out) {
  const Runs runs(shape, batch);
  for (std::uint64_t run = Runs::first(); run < runs.count; run += Runs::stride()) {
    const std::uint32_t number = runs.block(run);
    const SuperGroupOffsets to = out.offsets[number];
    if (to.width == 0) continue;
    const SparseBlock block = block_of(shape, batch, runs, number);
    const std::uint32_t first = runs.value(run);
    if (first >= block.held) continue;
    float sums[kRun];
    load_run<kType>(Row<const void>(values_of<kType>(block), block.held), first, sums);
    add_messages(shape, block, number, in, first, sums);
    store_run<DataType::kBfloat16>(sums, Row<void>(out.bytes + to.codes, block.held), first);
  }

  // Clears the bytes after the last block.
  std::uint64_t end = 0;
  if (runs.bounds.blocks > 0) {
    const std::uint32_t last = runs.bounds.first_block + runs.bounds.blocks - 1;
    const SuperGroupOffsets offsets = out.offsets[last];
    end = offsets.codes;
    if (offsets.width != 0) end += block_of(shape, batch, runs, last).bytes();
  }
  for (std::uint64_t i = end + Runs::first(); i < out.size; i += Runs::stride()) {
    out.bytes[i] = std::byte{0};
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    read_blocks(SparseShape shape, Batch batch, ConstDeviceMessage in, bool adds) {
  const Runs runs(shape, batch);
  for (std::uint64_t run = Runs::first(); run < runs.count; run += Runs::stride()) {
    const std::uint32_t number = runs.block(run);
    const SparseBlock block = block_of(shape, batch, runs, number);
    const std::uint32_t first = runs.value(run);
    if (first >= block.held) continue;
    float values[kRun];
    decode_run(shape, block, in.offsets[number], in.bytes, first, values);
    std::byte* own = values_of<kType>(block);
    if (adds) {
      float old[kRun];
      load_run<kType>(Row<const void>(own, block.held), first, old);
#pragma unroll
      for (unsigned i = 0; i < kRun; ++i) values[i] = old[i] + values[i];
    }
    store_run<kType>(values, Row<void>(own, block.held), first);
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    add_blocks(SparseShape shape, Batch batch, device::Incoming in) {
  const Runs runs(shape, batch);
  for (std::uint64_t run = Runs::first(); run < runs.count; run += Runs::stride()) {
    const std::uint32_t number = runs.block(run);
    const SparseBlock block = block_of(shape, batch, runs, number);
    const std::uint32_t first = runs.value(run);
    if (first >= block.held) continue;
    std::byte* own = values_of<kType>(block);
    float sums[kRun];
    load_run<kType>(Row<const void>(own, block.held), first, sums);
    add_messages(shape, block, number, in, first, sums);
    store_run<kType>(sums, Row<void>(own, block.held), first);
  }
}

// Adds norms in rank order and rounds once.
__global__ void __launch_bounds__(kThreads)
    add_norms(std::uint32_t ranks, const std::uint16_t* by_rank, std::size_t count,
              std::uint16_t* combined) {
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sum += bfloat16_to_float(by_rank[rank * count + i]);
  }
  combined[i] = float_to_bfloat16(sum);
}

class SparseDevice : public AddingCodec {
 protected:
  explicit SparseDevice(const SparseFormat& format) : shape_(format) {}

  std::uint32_t block() const { return shape_.block; }

  Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
               cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("sparse encode", write_blocks<type()>, grid(batch), kThreads, stream, shape_,
                    batch, in, out);
    });
  }

  Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
              cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("sparse decode", read_blocks<type()>, grid(batch), kThreads, stream, shape_,
                    batch, in, adds);
    });
  }

  Status add(const Batch& batch, const device::Incoming& in, cudaStream_t stream) const override {
    return with_type(batch.type, [&](auto type) {
      return launch("sparse fold_add", add_blocks<type()>, grid(batch), kThreads, stream, shape_,
                    batch, in);
    });
  }

 private:
  // Enough thread blocks for all blocks, but no more than fill the device several times: the number
  // of blocks within the bounds is known only on the device.
  unsigned grid(const Batch& batch) const {
    constexpr unsigned kPerMultiprocessor = 32;
    const unsigned wanted = grid_of(std::size_t{batch.blocks} * (shape_.block / kRun), kThreads);
    return std::clamp(wanted, 1u, kPerMultiprocessor * multiprocessors());
  }

  const SparseShape shape_;
};

class TopkcDevice final : public SparseDevice {
 public:
  explicit TopkcDevice(const SparseFormat& format) : SparseDevice(format) {}

  Status statistics(const Batch& batch, std::byte* out, std::byte* /*scratch*/,
                    cudaStream_t stream) const override {
    return compute_norms(batch, block(), out, stream);
  }

  Status combine_statistics(const Batch& /*batch*/, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override {
    const std::size_t count = size / sizeof(std::uint16_t);
    return launch("topkc statistics", add_norms, grid_of(count, kThreads), kThreads, stream, ranks,
                  reinterpret_cast<const std::uint16_t*>(by_rank), count,
                  reinterpret_cast<std::uint16_t*>(combined));
  }
};

class OmnireduceDevice final : public SparseDevice {
 public:
  explicit OmnireduceDevice(const SparseFormat& format) : SparseDevice(format) {}

  std::size_t statistics_scratch_size(const Batch& batch) const override {
    return rungs_scratch_size(batch);
  }
  Status statistics(const Batch& batch, std::byte* out, std::byte* scratch,
                    cudaStream_t stream) const override {
    return compute_rungs(batch, block(), out, scratch, stream);
  }

  Status combine_statistics(const Batch& /*batch*/, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override {
    return device::combine_max<std::uint8_t>(ranks, by_rank, size, combined, stream);
  }
};

template <typename Device>
DeviceCodecResult make_sparse(const Codec& codec) {
  const auto& sparse = dynamic_cast<const SparseCodec&>(codec);
  return std::unique_ptr<DeviceCodec>(std::make_unique<Device>(sparse.format()));
}

}  // namespace

DeviceCodecResult make_device_omnireduce(const Codec& codec) {
  return make_sparse<OmnireduceDevice>(codec);
}
DeviceCodecResult make_device_topkc(const Codec& codec) { return make_sparse<TopkcDevice>(codec); }

}  // namespace nf::cuda
