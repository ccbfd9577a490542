// The codecs of codec.h on device memory. The bytes are the same; what differs is how work is cut:
// one call covers all pieces of a message, and only puts kernels on a stream. Nothing here waits,
// allocates, or copies to or from the host, and everything that a launch needs and the host cannot
// know (widths, and so the places of super-groups and blocks) is read from device memory.
//
// Unlike a Codec, a DeviceCodec refuses no bytes: frames come from peers that run the same program,
// and a bad one decodes to some values, never out of bounds.
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
  const std::byte* statistics = nullptr;  // combined, of the first block; null where there are none
  std::uint64_t parameter = 0;            // its key
  std::uint64_t first = 0;                // element in the parameter; a multiple of the granule
  std::uint32_t count = 0;                // values
  std::uint32_t first_block = 0;          // blocks of all pieces before it in the table
};

// Where a super-group of a chosen width lies: byte offsets from the start of its message. Width 0
// has no bytes; its offsets are those where bytes of its own would lie. A block of a sparse codec
// has codes alone.
struct SuperGroupPlace {
  std::uint32_t units = 0;
  std::uint32_t scales = 0;
  std::uint32_t codes = 0;
  std::uint32_t width = 0;
};

// Which part of a table of pieces and blocks a message holds. For sparse codecs the first and the
// last piece may reach beyond it.
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
  // In device memory: where not null, the batch is this part of `pieces`, and of `places`; both
  // number blocks by DevicePiece::first_block. piece_count and blocks are then upper limits.
  const BatchBounds* bounds = nullptr;
};

// A message in device memory, 16-byte aligned. Where sizes follow from counts, piece i starts at
// piece_at[i]; where widths are chosen, block j lies at places[j]. The other one is null.
template <typename Byte>
struct DeviceMessageOf {
  Byte* bytes = nullptr;
  std::size_t size = 0;  // what lies behind the last piece is cleared by whoever writes
  const std::uint64_t* piece_at = nullptr;
  const SuperGroupPlace* places = nullptr;
  Origin origin;
};
using DeviceMessage = DeviceMessageOf<std::byte>;
using ConstDeviceMessage = DeviceMessageOf<const std::byte>;

// Any number of streams may use one at the same time. Each operation is that of Codec, over all
// pieces of the batch; a failed launch is kUnsupported or kOutOfMemory.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;

  // Bytes of device memory that statistics() needs beside its results.
  virtual std::size_t statistics_room(const Batch& batch) const;
  // Of the batch's values, block after block. `room` is aligned to kDeviceAlignment.
  virtual Status statistics(const Batch& batch, std::byte* out, std::byte* room,
                            cudaStream_t stream) const = 0;
  // `by_rank` holds the statistics of `ranks` ranks, `size` bytes each, in a row: those of the
  // batch's blocks, of which only the counts are read.
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
  // The message of values + all of `in`, added in order in FP32: what an owner does at the end of
  // `direct`. At most kMostFolded messages; they have one layout. Where messages merge, their codes
  // add. Values are only read.
  static constexpr std::size_t kMostFolded = 64;
  // Of one piece: its values are counted in 32 bits, with a granule to spare.
  static constexpr std::size_t kMostValues = 0xffff'ff00u;
  virtual Status fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                             const DeviceMessage& out, cudaStream_t stream) const = 0;
  // Where messages merge.
  virtual Status merge(const Batch& batch, const ConstDeviceMessage& first,
                       const ConstDeviceMessage& second, const DeviceMessage& out,
                       cudaStream_t stream) const;
};

// The device form of `codec`, which it borrows nothing from. Fails with kUnsupported, naming the
// codecs that have one, where there is none.
Expected<std::unique_ptr<DeviceCodec>> make_device_codec(const Codec& codec);

}  // namespace nf::cuda
