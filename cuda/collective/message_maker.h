// Adds the messages that a rank has received for a chunk to its values, in the order of Executor,
// and encodes the sum. In some cases the values are overwritten by a partial sum.
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
  struct Context {
    const SumPlan& plan;  // only for its stages
    const HopCodecs& codecs;
    const DeviceRounds& rounds;
    std::uint32_t rank = 0;
    bool merges = false;                 // whether messages merge
    DeviceFeedback* feedback = nullptr;  // null without error feedback
  };
  explicit MessageMaker(const Context& context) : context_(context) {}

  struct Request {
    const DeviceLayout& layout;
    std::byte* messages = nullptr;  // the memory of the layout's messages
    std::uint32_t chunk = 0;
    std::uint32_t tile = 0;
    Batch own;
    Origin origin;             // of the message to encode; unused by add()
    std::byte* out = nullptr;  // its memory; unused by add()
  };
  // Precondition of both: all messages to add have been received.
  Status make(const Request& request, cudaStream_t stream);
  // Replaces the values by the sum. Precondition: messages do not merge, all messages to add have
  // one layout, and if there are more than kMaxFolded of them, the values are FP32.
  Status add(const Request& request, cudaStream_t stream);

 private:
  void find_incoming(const Request& request);
  Status add_one_by_one(const Request& request, const DeviceMessage& out,
                        cudaStream_t stream) const;
  Status merge_one_by_one(const Request& request, ConstDeviceMessage held, const DeviceMessage& out,
                          cudaStream_t stream) const;
  Status make_with_residual(const Request& request, const DeviceMessage& out,
                            cudaStream_t stream) const;
  Status encode_with_residual(const Request& request, const DeviceMessage& out,
                              cudaStream_t stream) const;
  const DeviceCodec& codec(std::uint32_t contributions) const {
    return *context_.codecs[context_.plan.stage(contributions)];
  }

  const Context context_;
  std::vector<ConstDeviceMessage> in_;  // messages to add in the current call
};

}  // namespace nf::cuda
