// Sums a few FP32 figures of every rank, such as the statistics of a step, in rank order. All ranks
// get the same bits. The figures travel as codec statistics do, so a rank sends few messages, even
// among hundreds of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "collective/agreement.h"
#include "collective/frame.h"
#include "collective/stage.h"
#include "collective/statistics_stage.h"
#include "neuron_fabric/all_reduce.h"

namespace nf {

class FigureSum final : public Stage {
 public:
  // Borrows the transport. Of the options, only seed, timeout and checksum are used.
  FigureSum(Transport& transport, const AllReduceOptions& options);

  // Begins to replace `figures`, of which all ranks have the same number, by their sums over all
  // ranks. The ranks agree on step and epoch of the call, on its loss scale, and on the parameter
  // `key`; `call.gradients` is not used. Borrows the figures until the sum is done.
  Status start(const AllReduceCall& call, std::uint64_t key, std::span<float> figures);
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  // start(), then waits as AllReduce::run().
  Status run(const AllReduceCall& call, std::uint64_t key, std::span<float> figures);

  // The scale of the last call, once all ranks have agreed on it.
  LossScale loss_scale() const { return loss_scale_of(call_); }

 private:
  enum class State { kAgree, kSum, kDone };

  Status begin_sum();

  Transport& transport_;
  const AllReduceOptions options_;

  // State of the current call.
  State state_ = State::kDone;
  AllReduceCall call_;
  std::optional<Agreement> agreement_;
  Piece domain_;
  std::span<std::byte> bytes_;
  StatisticsPart part_;
  StatisticsStage stage_;
};

}  // namespace nf
