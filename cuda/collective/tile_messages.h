// The messages of one part of an exchange on streams, tile by tile, like Executor: encodes them,
// lists their transfers, and adds or decodes those that have arrived.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/collective/device_layout.h"
#include "cuda/collective/message_maker.h"
#include "cuda/transport/stream_transport.h"

namespace nf::cuda {

class TileMessages {
 public:
  // Keeps the references of `context`.
  TileMessages(const MessageMaker::Context& context, DeviceAllocator& allocator)
      : context_(context), maker_(context), messages_(allocator) {}

  // Allocates memory for a call. Fails with kOutOfMemory.
  Status reserve(const DeviceLayout& layout, cudaStream_t stream) {
    return messages_.reserve(layout.message_bytes(), stream);
  }

  // The steps of TilePipeline. A tile that the layout does not have is empty. Precondition: the
  // plan of the layout is made.
  //
  // Enqueues the kernels of one tile before its round `round`; after the last round, those that
  // write the sums.
  Status compute(const DeviceLayout& layout, const CallDraws& draws, std::uint32_t tile,
                 std::size_t round, cudaStream_t stream);
  // Appends the transfers of the tile in that round. Counts the bytes sent.
  void add_transfers(const DeviceLayout& layout, std::uint32_t tile, std::size_t round,
                     StreamTransfers& transfers);

  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // The part of bytes_sent() that are finished sums.
  std::uint64_t sum_bytes_sent() const { return sum_bytes_sent_; }
  // Device memory in bytes.
  std::size_t memory() const { return messages_.size(); }

 private:
  // One tile of a chunk.
  struct Place {
    const DeviceLayout& layout;
    const CallDraws& draws;
    std::uint32_t chunk = 0;
    std::uint32_t tile = 0;

    Batch batch() const { return draws.of(layout.plan().batch(chunk, tile)); }
  };

  Status make_message(const Place& place, std::uint32_t contributions, const MessageSlot& slot,
                      cudaStream_t stream);
  Status add_messages(const Place& place, cudaStream_t stream);
  Status decode(const Place& place, Origin origin, cudaStream_t stream);
  std::byte* bytes_of(const MessageSlot& slot, std::uint32_t tile) const {
    return messages_.data() + slot.of(tile);
  }

  const MessageMaker::Context context_;
  MessageMaker maker_;
  DeviceBuffer messages_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t sum_bytes_sent_ = 0;
};

}  // namespace nf::cuda
