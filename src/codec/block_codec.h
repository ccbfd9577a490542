// Base class of codecs whose kernels process whole blocks of FP32 values. It handles values of any
// count, type and alignment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "codec/convert.h"
#include "neuron_fabric/codec.h"

namespace nf {

// Blocks [block, block + blocks) of a slice and the number of values in them. Only the last run of
// a slice may contain a partial block, and then it contains no other block.
struct Run {
  std::size_t block = 0;
  std::size_t blocks = 0;
  std::size_t values = 0;
};

class BlockCodec : public Codec {
 public:
  std::size_t granule() const override { return block_; }

 protected:
  static constexpr std::size_t kMaxBlock = 8192;

  // `block` is at most kMaxBlock.
  BlockCodec(CodecSpec spec, std::size_t block, Isa isa)
      : Codec(std::move(spec)), block_(block), convert_(convert_kernels(isa)) {}

  std::size_t block() const { return block_; }
  const ConvertKernels& convert() const { return convert_; }
  std::size_t blocks_of(std::size_t count) const { return (count + block_ - 1) / block_; }

 private:
  template <typename Void>
  auto* at(Void* data, Run run, DataType type) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) + run.block * block_ * size_of(type);
  }

  // Whether kernels can read and write the values in place.
  static bool direct(const void* data, DataType type) {
    return type == DataType::kFloat32 &&
           reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0;
  }

 protected:
  // Calls work(run, values) for consecutive runs of all values. A partial block is padded with
  // zeros.
  template <typename Work>
  void for_each_run(ConstValues values, Work work) const {
    alignas(64) float staged[kMaxBlock];
    const bool in_place = direct(values.data, values.type);
    for_each_tile(values.count, in_place, [&](Run run, bool whole) {
      const std::byte* from = at(values.data, run, values.type);
      if (whole && in_place) {
        work(run, reinterpret_cast<const float*>(from));
        return;
      }
      load(values.type, from, run.values, staged);
      std::fill(staged + run.values, staged + run.blocks * block_, 0.0f);
      work(run, static_cast<const float*>(staged));
    });
  }

  // The same for values that `work` writes. The values are initialised only if `update` is set.
  template <typename Work>
  void for_each_run(Values values, bool update, Work work) const {
    alignas(64) float staged[kMaxBlock];
    const bool in_place = direct(values.data, values.type);
    for_each_tile(values.count, in_place, [&](Run run, bool whole) {
      std::byte* to = at(values.data, run, values.type);
      if (whole && in_place) {
        work(run, reinterpret_cast<float*>(to));
        return;
      }
      if (update) load(values.type, to, run.values, staged);
      work(run, staged);
      store(values.type, staged, run.values, to);
    });
  }

 private:
  // All whole blocks are one run if values are used in place. Otherwise a run fits the staging
  // buffer.
  template <typename Work>
  void for_each_tile(std::size_t count, bool in_place, Work work) const {
    const std::size_t whole = count / block_;
    const std::size_t tile = in_place ? whole : kMaxBlock / block_;
    for (std::size_t block = 0; block < whole; block += tile) {
      const std::size_t blocks = std::min(tile, whole - block);
      work(Run{block, blocks, blocks * block_}, true);
    }
    if (count % block_ != 0) work(Run{whole, 1, count % block_}, false);
  }

  void load(DataType type, const std::byte* from, std::size_t count, float* to) const {
    switch (type) {
      case DataType::kFloat32: std::memcpy(to, from, count * sizeof *to); break;
      case DataType::kBfloat16: convert_.bfloat16_to_float(from, count, to); break;
      case DataType::kFloat16: convert_.float16_to_float(from, count, to); break;
    }
  }

  void store(DataType type, const float* from, std::size_t count, std::byte* to) const {
    switch (type) {
      case DataType::kFloat32: std::memcpy(to, from, count * sizeof *from); break;
      case DataType::kBfloat16: convert_.float_to_bfloat16(from, count, to); break;
      case DataType::kFloat16: convert_.float_to_float16(from, count, to); break;
    }
  }

  const std::size_t block_;
  const ConvertKernels& convert_;
};

}  // namespace nf
