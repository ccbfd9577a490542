// The base classes of device codecs with these kernels: write() adds zero or more messages to the
// values and encodes (encode, decode_add_encode, fold_encode), read() decodes (decode, decode_add),
// and add() adds messages to the values (fold_add), unless messages merge.
#pragma once

#include "cuda/base/launch.h"
#include "cuda/device/tiles.cuh"

namespace nf::cuda {

class FoldingCodec : public DeviceCodec {
 public:
  Status statistics(const Batch& /*batch*/, std::byte* /*out*/, std::byte* /*scratch*/,
                    cudaStream_t /*stream*/) const override {
    return {};
  }
  Status combine_statistics(const Batch& /*batch*/, std::uint32_t /*ranks*/,
                            const std::byte* /*by_rank*/, std::size_t /*size*/,
                            std::byte* /*combined*/, cudaStream_t /*stream*/) const override {
    return {};
  }

  Status encode(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const override {
    return fold_encode(batch, {}, out, stream);
  }
  Status decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                           const DeviceMessage& out, cudaStream_t stream) const override {
    return fold_encode(batch, {&in, 1}, out, stream);
  }
  Status fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                     const DeviceMessage& out, cudaStream_t stream) const override {
    if (in.size() > kMaxFolded) {
      return {ErrorCode::kInvalidArgument, "fold_encode: too many messages"};
    }
    if (batch.piece_count == 0) return clear(out, stream);
    return write(batch, device::incoming(in), out, stream);
  }

  Status decode(const Batch& batch, const ConstDeviceMessage& in,
                cudaStream_t stream) const override {
    return batch.piece_count == 0 ? Status() : read(batch, in, false, stream);
  }
  Status decode_add(const Batch& batch, const ConstDeviceMessage& in,
                    cudaStream_t stream) const override {
    return batch.piece_count == 0 ? Status() : read(batch, in, true, stream);
  }

 protected:
  // Precondition of both: the batch has at least one piece.
  virtual Status write(const Batch& batch, const device::Incoming& in, const DeviceMessage& out,
                       cudaStream_t stream) const = 0;
  virtual Status read(const Batch& batch, const ConstDeviceMessage& in, bool adds,
                      cudaStream_t stream) const = 0;

  static Status clear(const DeviceMessage& message, cudaStream_t stream) {
    return to_status(cudaMemsetAsync(message.bytes, 0, message.size, stream), "cudaMemsetAsync");
  }
};

// For codecs whose messages do not merge.
class AddingCodec : public FoldingCodec {
 public:
  Status fold_add(const Batch& batch, std::span<const ConstDeviceMessage> in,
                  cudaStream_t stream) const override {
    if (in.size() > kMaxFolded) return {ErrorCode::kInvalidArgument, "fold_add: too many messages"};
    if (batch.piece_count == 0 || in.empty()) return {};
    if (in.size() == 1) return read(batch, in.front(), true, stream);
    return add(batch, device::incoming(in), stream);
  }

 protected:
  // Precondition: the batch has at least one piece.
  virtual Status add(const Batch& batch, const device::Incoming& in, cudaStream_t stream) const = 0;
};

}  // namespace nf::cuda
