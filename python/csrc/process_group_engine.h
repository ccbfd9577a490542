// The engine of the core: the process group that DDP uses without us.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <optional>
#include <utility>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

// Starts the group's own reduce-scatter of `rows`, one row per rank; the result replaces this
// rank's row. Throws the exceptions of the group. On the host and with Gloo it is an all-reduce:
// Gloo's reduce-scatter is one too, with the same bits, but copies the rows and has no future.
c10::intrusive_ptr<c10d::Work> reduce_scatter_rows(
    c10d::ProcessGroup& group, at::Tensor rows, Reduction reduction,
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout);

class ProcessGroupEngine final : public DenseEngine {
 public:
  // `timeout` limits each sum. With a stream, values are on its device, and sum() enqueues on it
  // instead of waiting.
  ProcessGroupEngine(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration timeout,
                     std::optional<c10::Stream> stream = {})
      : group_(std::move(group)), timeout_(timeout), stream_(stream) {}

  Status sum(Values values) override;
  Status reduce_scatter(Values rows, Reduction reduction) override;
  // Start a collective without waiting. Throw the exceptions of the group.
  c10::intrusive_ptr<c10d::Work> start(Values values);
  c10::intrusive_ptr<c10d::Work> start_reduce_scatter(Values rows, Reduction reduction);
  // Aborts the operations on the stream's device, and so the group.
  void abort();

 private:
  at::Tensor tensor_of(Values values) const;
  // Waits for a started collective; with a stream, the stream waits.
  template <typename Start>
  Status wait(Start start);

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const Duration timeout_;
  const std::optional<c10::Stream> stream_;
};

}  // namespace nf::torch_front
