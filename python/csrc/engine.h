// The process group that DDP itself would use, as the core's engine.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <utility>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class Engine final : public DenseSum {
 public:
  // No sum takes longer than `timeout`.
  Engine(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration timeout)
      : group_(std::move(group)), timeout_(timeout) {}

  Status sum(Values values) override;
  // Without waiting. Throws what the group throws.
  c10::intrusive_ptr<c10d::Work> start(Values values);

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const Duration timeout_;
};

}  // namespace nf::torch_front
