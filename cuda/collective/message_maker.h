// Makes the messages of a rank: of its values, and of what it has received for the same chunk, in
// the order in which Executor adds. Some ways of it leave a sum in the place of the values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/collective/device_feedback.h"
#include "cuda/collective/device_layout.h"
#include "cuda/collective/device_rounds.h"

namespace nf::cuda {

class MessageMaker {
 public:
  // All is borrowed.
  struct Parts {
    const SumPlan& plan;  // for its stages alone
    const DeviceStages& stages;
    const DeviceRounds& rounds;
    std::uint32_t rank = 0;
    bool merges = false;                 // messages, that is
    DeviceFeedback* feedback = nullptr;  // where what messages lose is kept
  };
  explicit MessageMaker(const Parts& parts) : parts_(parts) {}

  struct Request {
    const DeviceLayout& layout;
    std::byte* messages = nullptr;  // where those of the layout lie
    std::uint32_t chunk = 0;
    std::uint32_t tile = 0;
    Batch own;
    Origin origin;             // of the message to be made
    std::byte* out = nullptr;  // and its place
  };
  // Precondition: all that is to be added has been received.
  Status make(const Request& request, cudaStream_t stream);

 private:
  Status add_in_turn(const Request& request, const DeviceMessage& out, cudaStream_t stream) const;
  Status merge_in_turn(const Request& request, ConstDeviceMessage held, const DeviceMessage& out,
                       cudaStream_t stream) const;
  Status make_and_lose(const Request& request, const DeviceMessage& out, cudaStream_t stream) const;
  Status encode_and_lose(const Request& request, const DeviceMessage& out,
                         cudaStream_t stream) const;
  const DeviceCodec& codec(std::uint32_t contributions) const {
    return *parts_.stages[parts_.plan.stage(contributions)];
  }

  const Parts parts_;
  std::vector<ConstDeviceMessage> in_;  // of the message under way
};

}  // namespace nf::cuda
