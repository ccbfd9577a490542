// The codecs of codec.h on device memory. The bytes are the same, but one call covers all pieces of
// a message and only enqueues kernels on a stream. No function here waits, allocates, or copies to
// or from the host. Launch inputs that the host does not have (widths, and so the offsets of
// super-groups and blocks) are read from device memory.
//
// Unlike a Codec, a DeviceCodec does not reject bytes: frames come from peers that run the same
// program. A corrupt message decodes to arbitrary values, never out of bounds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// Consecutive values of one parameter. Kernels find the piece of a block by bisection.
struct DevicePiece {
  void* values = nullptr;                 // of the batch's type, 16-byte aligned
  const std::byte* statistics = nullptr;  // combined, of the first block; null if there are none
  std::uint64_t parameter = 0;            // key of the parameter
  std::uint64_t first = 0;                // element in the parameter; a multiple of the granule
  std::uint32_t count = 0;                // values
  std::uint32_t first_block = 0;          // blocks of all pieces before it in the table
};

// The chosen width of a super-group and the byte offsets of its parts in the message. A super-group
// of width 0 has no bytes; its offsets are where they would be. A block of a sparse codec has codes
// only.
struct SuperGroupOffsets {
  std::uint32_t units = 0;
  std::uint32_t scales = 0;
  std::uint32_t codes = 0;
  std::uint32_t width = 0;
};

// The part of a table of pieces and blocks that a message contains. For sparse codecs the first and
// the last piece may extend beyond it.
struct BatchBounds {
  std::uint32_t first_piece = 0;
  std::uint32_t piece_count = 0;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
};

// The pieces of one message, in order.
struct Batch {
  const DevicePiece* pieces = nullptr;  // in device memory
  std::uint32_t piece_count = 0;
  std::uint32_t blocks = 0;  // of all pieces, Codec::granule() values each; the last of a piece may
                             // hold fewer
  DataType type = DataType::kFloat32;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t ranks = 1;
  // In device memory. If not null, the batch is this part of `pieces` and of the message's offsets;
  // both number blocks by DevicePiece::first_block. piece_count and blocks are then upper limits.
  const BatchBounds* bounds = nullptr;
};

// A message in device memory, 16-byte aligned. If sizes follow from counts, piece i starts at
// piece_at[i]; if widths are chosen, block j is at offsets[j]. The other pointer is null.
template <typename Byte>
struct DeviceMessageOf {
  Byte* bytes = nullptr;
  std::size_t size = 0;  // the writer clears the bytes after the last piece
  const std::uint64_t* piece_at = nullptr;
  const SuperGroupOffsets* offsets = nullptr;
  Origin origin;
};
using DeviceMessage = DeviceMessageOf<std::byte>;
using ConstDeviceMessage = DeviceMessageOf<const std::byte>;

// Any number of streams may use one at the same time. Each operation is that of Codec, over all
// pieces of the batch. A failed launch returns kUnsupported or kOutOfMemory.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;

  // Bytes of scratch memory that statistics() needs.
  virtual std::size_t statistics_scratch_size(const Batch& batch) const;
  // Writes the statistics of the batch's values, block after block. `scratch` is aligned to
  // kDeviceAlignment.
  virtual Status statistics(const Batch& batch, std::byte* out, std::byte* scratch,
                            cudaStream_t stream) const = 0;
  // `by_rank` contains the statistics of the batch's blocks for `ranks` ranks, `size` bytes each.
  // Reads only the counts of the batch.
  virtual Status combine_statistics(const Batch& batch, std::uint32_t ranks,
                                    const std::byte* by_rank, std::size_t size, std::byte* combined,
                                    cudaStream_t stream) const = 0;

  virtual Status encode(const Batch& batch, const DeviceMessage& out,
                        cudaStream_t stream) const = 0;
  virtual Status decode(const Batch& batch, const ConstDeviceMessage& in,
                        cudaStream_t stream) const = 0;
  virtual Status decode_add(const Batch& batch, const ConstDeviceMessage& in,
                            cudaStream_t stream) const = 0;
  virtual Status decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                                   const DeviceMessage& out, cudaStream_t stream) const = 0;
  // Encodes values + all of `in`, added in order in FP32: the owner's last step in `direct`. At
  // most kMaxFolded messages, all of one layout. If messages merge, their codes add. Values are
  // only read.
  static constexpr std::size_t kMaxFolded = 64;
  // Values of a piece: the count plus a granule fits in 32 bits.
  static constexpr std::size_t kMaxValues = 0xffff'ff00u;
  virtual Status fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                             const DeviceMessage& out, cudaStream_t stream) const = 0;
  // Replaces the values by values + all of `in`, added in order in FP32; 16-bit values are rounded
  // once. At most kMaxFolded messages, all of one layout. Not for codecs whose messages merge.
  virtual Status fold_add(const Batch& batch, std::span<const ConstDeviceMessage> in,
                          cudaStream_t stream) const;
  // Only for codecs whose messages merge.
  virtual Status merge(const Batch& batch, const ConstDeviceMessage& first,
                       const ConstDeviceMessage& second, const DeviceMessage& out,
                       cudaStream_t stream) const;
};

// Creates the device form of `codec`; it keeps no reference to it. If there is none, fails with
// kUnsupported and names the codecs that have one.
Expected<std::unique_ptr<DeviceCodec>> make_device_codec(const Codec& codec);

}  // namespace nf::cuda
