// Where everything of one set of gradients lies: its plan, a place for every message, and copies of
// values that kernels cannot take as they lie.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/schedule.h"
#include "cuda/device_plan.h"

namespace nf::cuda {

// A message's place among all messages, once a tile.
struct MessageSlot {
  std::size_t at = 0;  // of tile 0
  std::size_t stride = 0;
};

class DeviceLayout {
 public:
  struct Request {
    const Codec& codec;
    SumOrder order;
    std::span<const Gradient> gradients;
    const Schedule& schedule;
    std::size_t tile_bytes = 0;
    std::span<const std::uint32_t> contributions;  // that messages have
  };
  // Borrows the codec. Fails where gradients are of several types, and with kOutOfMemory.
  static Expected<std::unique_ptr<DeviceLayout>> create(const Request& request,
                                                        DeviceAllocator& allocator,
                                                        cudaStream_t stream);

  // Whether these are the gradients that it was made for, at the same addresses.
  bool is_of(std::span<const Gradient> gradients) const;

  DevicePlan& plan() const { return *plan_; }
  // What this rank sends towards the owner of a chunk, receives for it, and its finished sum.
  const MessageSlot& partial(std::uint32_t chunk) const { return partial_[chunk]; }
  const MessageSlot& incoming(std::uint32_t chunk, std::size_t index) const {
    return incoming_[chunk][index];  // in the order of the schedule
  }
  const MessageSlot& finished(std::uint32_t chunk) const { return finished_[chunk]; }
  // That all of those take together; and statistics: this rank's own, and its part of all ranks'.
  std::size_t message_bytes() const { return message_bytes_; }
  std::size_t statistics_bytes() const { return statistics_bytes_; }

  // Values to their copies, where they have any, and back.
  Status copy_in(cudaStream_t stream) const;
  Status copy_out(cudaStream_t stream) const;

  // Device memory held.
  std::size_t memory() const { return plan_->memory() + room_.size(); }

 private:
  // Of values that do not lie as kernels want them, as in a bucket behind a parameter of odd size.
  struct Copy {
    void* values = nullptr;
    void* copy = nullptr;
    std::size_t size = 0;
  };

  explicit DeviceLayout(DeviceAllocator& allocator) : room_(allocator) {}

  // Replaces the addresses of such values by those of copies.
  Status redirect(std::vector<Gradient>& own, cudaStream_t stream);
  void place_messages(const Schedule& schedule);

  std::vector<Gradient> gradients_;
  DeviceBuffer room_;
  std::vector<Copy> copies_;
  std::unique_ptr<DevicePlan> plan_;
  std::vector<MessageSlot> partial_;                // by chunk
  std::vector<std::vector<MessageSlot>> incoming_;  // by chunk
  std::vector<MessageSlot> finished_;               // by chunk
  std::size_t message_bytes_ = 0;
  std::size_t statistics_bytes_ = 0;
};

}  // namespace nf::cuda
