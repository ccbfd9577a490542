// The process group that DDP itself would use, as the core's engine.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class Engine final : public DenseSum {
 public:
  explicit Engine(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {}

  Status sum(Values values) override;
  // Without waiting. Throws what the group throws.
  c10::intrusive_ptr<c10d::Work> start(Values values);

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace nf::torch_front
