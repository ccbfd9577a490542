// CodecOps on a CUDA device.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/codec/device_codec.h"
#include "nf/bench/codec_ops.h"

namespace nf::cli {

// A device allocation.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Status resize(std::size_t size) {
    size_ = size;
    return cuda::to_status(cudaMalloc(&data_, std::max<std::size_t>(size, 1)), "device memory");
  }
  template <typename T>
  Status assign(std::span<const T> items) {
    NF_RETURN_IF_ERROR(resize(items.size_bytes()));
    return cuda::to_status(
        cudaMemcpy(data_, items.data(), items.size_bytes(), cudaMemcpyHostToDevice),
        "copy to the device");
  }
  std::byte* bytes() const { return static_cast<std::byte*>(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// The operations of one codec on the device, with their inputs.
class DeviceOps {
 public:
  DeviceOps(const GradientPair& gradients, std::size_t count)
      : gradients_(gradients), count_(count), type_(gradients.type()) {}

  Status prepare(const std::string& spelling);
  // In the order of CodecOps::ops().
  std::vector<CodecOp> ops();
  Work copy() {
    return [this] {
      return cuda::to_status(cudaMemcpyAsync(decoded_.bytes(), values_[0].bytes(),
                                             values_[0].size(), cudaMemcpyDeviceToDevice),
                             "copy on the device");
    };
  }

 private:
  static constexpr std::uint32_t kRanks = 2;

  Status fill(std::size_t rank);
  Status share_statistics();
  Status compute_offsets();
  cuda::Batch batch(const DeviceMemory& pieces) const {
    return {.pieces = pieces.as<cuda::DevicePiece>(),
            .piece_count = 1,
            .blocks = blocks_,
            .type = type_,
            .seed = 1,
            .step = 1,
            .ranks = kRanks};
  }
  Status put_piece(const DeviceMemory& values, DeviceMemory& pieces) const;
  template <typename Byte>
  cuda::DeviceMessageOf<Byte> message(const DeviceMemory& memory, Origin origin) const {
    return {.bytes = memory.bytes(),
            .size = memory.size(),
            .piece_at = offsets_.size() > 0 ? nullptr : piece_at_.as<std::uint64_t>(),
            .offsets = offsets_.size() > 0 ? offsets_.as<cuda::SuperGroupOffsets>() : nullptr,
            .origin = origin};
  }
  double bits_of(std::size_t size) const {
    return count_ == 0
               ? 0
               : 8.0 * static_cast<double>(size + statistics_.size()) / static_cast<double>(count_);
  }
  // The error of decoded_ relative to the sum of ranks [first, first + ranks).
  Expected<double> vnmse(std::size_t first, std::size_t ranks) const;

  const GradientPair& gradients_;
  const std::size_t count_;
  const DataType type_;
  std::uint32_t blocks_ = 0;
  std::unique_ptr<Codec> codec_;
  std::unique_ptr<cuda::DeviceCodec> device_;
  std::vector<std::byte> host_statistics_;
  std::vector<std::uint8_t> widths_;
  Slice slice_;
  std::array<DeviceMemory, kRanks> values_;
  std::array<DeviceMemory, kRanks> pieces_;  // one piece per rank
  DeviceMemory decoded_;
  DeviceMemory decoded_piece_;
  DeviceMemory by_rank_;
  DeviceMemory scratch_;  // for statistics
  DeviceMemory statistics_;
  DeviceMemory piece_at_;
  DeviceMemory offsets_;
  DeviceMemory message_;  // of rank 0
  DeviceMemory sum_;      // of both ranks, encoded by rank 1
  DeviceMemory folded_;
};

}  // namespace nf::cli
