// Encodes the messages of a rank: its values plus the messages received for the same chunk, added
// in the order of Executor. In some cases the values are overwritten by a partial sum.
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
  // Keeps references to all of them.
  struct Parts {
    const SumPlan& plan;  // only for its stages
    const HopCodecs& codecs;
    const DeviceRounds& rounds;
    std::uint32_t rank = 0;
    bool merges = false;                 // whether messages merge
    DeviceFeedback* feedback = nullptr;  // null without error feedback
  };
  explicit MessageMaker(const Parts& parts) : parts_(parts) {}

  struct Request {
    const DeviceLayout& layout;
    std::byte* messages = nullptr;  // the memory of the layout's messages
    std::uint32_t chunk = 0;
    std::uint32_t tile = 0;
    Batch own;
    Origin origin;             // of the message to encode
    std::byte* out = nullptr;  // its memory
  };
  // Precondition: all messages to add have been received.
  Status make(const Request& request, cudaStream_t stream);

 private:
  Status add_one_by_one(const Request& request, const DeviceMessage& out,
                        cudaStream_t stream) const;
  Status merge_one_by_one(const Request& request, ConstDeviceMessage held, const DeviceMessage& out,
                          cudaStream_t stream) const;
  Status make_with_residual(const Request& request, const DeviceMessage& out,
                            cudaStream_t stream) const;
  Status encode_with_residual(const Request& request, const DeviceMessage& out,
                              cudaStream_t stream) const;
  const DeviceCodec& codec(std::uint32_t contributions) const {
    return *parts_.codecs[parts_.plan.stage(contributions)];
  }

  const Parts parts_;
  std::vector<ConstDeviceMessage> in_;  // messages to add in the current call
};

}  // namespace nf::cuda
