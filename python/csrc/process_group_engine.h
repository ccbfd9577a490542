// The process group that DDP itself would use, as the core's engine.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <utility>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class ProcessGroupEngine final : public DenseEngine {
 public:
  // No sum takes longer than `timeout`. With a stream, values lie on its device, and a sum is put
  // on it instead of being waited for.
  ProcessGroupEngine(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration timeout,
                     std::optional<c10::Stream> stream = {})
      : group_(std::move(group)), timeout_(timeout), stream_(stream) {}

  Status sum(Values values) override;
  // Without waiting. Throws what the group throws.
  c10::intrusive_ptr<c10d::Work> start(Values values);
  // Ends what is under way on the stream's device, and the group with it: a peer is lost.
  void abort();

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const Duration timeout_;
  const std::optional<c10::Stream> stream_;
};

}  // namespace nf::torch_front
