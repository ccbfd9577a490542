// The engine of the core: the process group that DDP uses without us.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <utility>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class ProcessGroupEngine final : public DenseEngine {
 public:
  // `timeout` limits each sum. With a stream, values are on its device, and sum() enqueues on it
  // instead of waiting.
  ProcessGroupEngine(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration timeout,
                     std::optional<c10::Stream> stream = {})
      : group_(std::move(group)), timeout_(timeout), stream_(stream) {}

  Status sum(Values values) override;
  // Starts a sum without waiting. Throws the exceptions of the group.
  c10::intrusive_ptr<c10d::Work> start(Values values);
  // Aborts the operations on the stream's device, and so the group.
  void abort();

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const Duration timeout_;
  const std::optional<c10::Stream> stream_;
};

}  // namespace nf::torch_front
