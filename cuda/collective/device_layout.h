// The memory layout of calls with the same LayoutKey: their plan, a slot for every message, and
// copies of values that cannot be used directly.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/schedule.h"
#include "cuda/collective/device_plan.h"
#include "cuda/collective/device_rounds.h"
#include "cuda/collective/layout_key.h"
#include "cuda/collective/value_copies.h"

namespace nf::cuda {

// The memory of a message, once per tile.
struct MessageSlot {
  std::size_t at = 0;  // of tile 0
  std::size_t stride = 0;

  std::size_t of(std::uint32_t tile) const { return at + tile * stride; }
};

class DeviceLayout {
 public:
  struct Request {
    const Codec& codec;
    SumOrder order;
    std::span<const Gradient> gradients;
    std::span<const std::uint64_t> firsts;  // see DevicePlan::Request
    const Schedule& schedule;
    std::span<const std::size_t> borders = {};  // of given chunks
    std::size_t tile_bytes = 0;
    std::span<const std::uint32_t> contributions;  // of the messages
    std::span<const FinishedChunk> finished;
    bool adds_to_values = false;     // adds received messages to the values, so copies are FP32
    bool merges_one_by_one = false;  // needs memory for two partial sums
  };
  // Keeps a reference to the codec. Fails if the gradients have different types, and with
  // kOutOfMemory.
  static Expected<std::unique_ptr<DeviceLayout>> create(const Request& request,
                                                        DeviceAllocator& allocator,
                                                        cudaStream_t stream);

  const LayoutKey& key() const { return key_; }
  // Work that follows on `stream` uses the values of these gradients, which have the same key.
  Status move_to(std::span<const Gradient> gradients, cudaStream_t stream) {
    values_.move_to(gradients);
    return plan_->move_to(values_.working(), stream);
  }

  DevicePlan& plan() const { return *plan_; }
  // Slots of the message that this rank sends towards the owner of a chunk, of the messages that it
  // receives for the chunk, and of the finished sum.
  const MessageSlot& partial(std::uint32_t chunk) const { return partial_[chunk]; }
  const MessageSlot& incoming(std::uint32_t chunk, std::size_t index) const {
    return incoming_[chunk][index];  // in the order of the schedule
  }
  const MessageSlot& finished(std::uint32_t chunk) const { return finished_[chunk]; }
  // Memory of a partial sum that is built one message at a time. Shared by all chunks and tiles,
  // since kernels run one after the other.
  std::size_t growing(std::size_t turn) const { return growing_[turn % growing_.size()]; }
  std::size_t message_bytes() const { return message_bytes_; }  // of all messages

  const ValueCopies& values() const { return values_; }

  // Device memory in bytes.
  std::size_t memory() const { return plan_->memory() + values_.memory(); }

 private:
  explicit DeviceLayout(DeviceAllocator& allocator) : values_(allocator) {}

  void allocate_messages(const Request& request);

  LayoutKey key_;
  ValueCopies values_;
  std::unique_ptr<DevicePlan> plan_;
  std::vector<MessageSlot> partial_;                // by chunk
  std::vector<std::vector<MessageSlot>> incoming_;  // by chunk
  std::vector<MessageSlot> finished_;               // by chunk
  std::array<std::size_t, 2> growing_ = {};
  std::size_t message_bytes_ = 0;
};

}  // namespace nf::cuda
