// The last stage of a sum on streams, like Executor: runs a rank's rounds tile by tile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/collective/device_feedback.h"
#include "cuda/collective/device_layout.h"
#include "cuda/collective/device_rounds.h"
#include "cuda/collective/message_maker.h"
#include "cuda/collective/tile_pipeline.h"
#include "cuda/transport/stream_transport.h"

namespace nf::cuda {

class DeviceExecutor {
 public:
  // Keeps references to all of them.
  struct Parts {
    StreamTransport& transport;
    Wire& wire;
    const SumPlan& plan;  // only for its stages
    const HopCodecs& codecs;
    const DeviceRounds& rounds;
    bool merges = false;                 // whether messages merge
    DeviceFeedback* feedback = nullptr;  // null without error feedback
  };
  DeviceExecutor(const Parts& parts, DeviceAllocator& allocator);

  // Called once, before all other functions.
  Status prepare();
  // Allocates memory for a call. Fails with kOutOfMemory.
  Status reserve(const DeviceLayout& layout, cudaStream_t stream);
  // Enqueues the sum of the values of the layout, in place. Precondition: its plan is made.
  Status run(const DeviceLayout& layout, const CallDraws& draws, cudaStream_t stream);
  // For a call that failed after reserve(): later work on `stream` waits for its exchanges.
  Status wait_for_exchanges(cudaStream_t stream) { return pipeline_.wait_for_exchanges(stream); }

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

  // Enqueues the kernels of one tile before its round `round`; after the last round, those that
  // write the sums.
  Status compute(const DeviceLayout& layout, const CallDraws& draws, std::uint32_t tile,
                 std::size_t round, cudaStream_t stream);
  Status make_message(const Place& place, std::uint32_t contributions, const MessageSlot& slot,
                      cudaStream_t stream);
  Status add_messages(const Place& place, cudaStream_t stream);
  Status decode(const Place& place, Origin origin, cudaStream_t stream);
  Status exchange(const DeviceLayout& layout, std::uint32_t tile, std::size_t round,
                  cudaStream_t wire);
  std::byte* bytes_of(const MessageSlot& slot, std::uint32_t tile) const {
    return messages_.data() + slot.of(tile);
  }

  const Parts parts_;
  MessageMaker maker_;
  DeviceBuffer messages_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t sum_bytes_sent_ = 0;
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
  TilePipeline pipeline_;  // destroyed first: waits for exchanges of the messages
};

}  // namespace nf::cuda
