// The collective that sums several parts at once, each with a codec of its own, in three stages:
// agree, reduce statistics, sum. With kHierarchical, a full-precision reduce within each host group
// precedes the statistics, and a gather within each host group follows the sum. A reduce-scatter
// has the same stages without the gather halves, and its chunks are the shards of the caller.
//
// All parts travel together: one agreement, one run of the statistics stage, and one run of the
// executor. Each part has the result that it would have alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/agreement.h"
#include "collective/exchange_part.h"
#include "collective/executor.h"
#include "collective/schedule.h"
#include "collective/stage.h"
#include "collective/statistics_stage.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"
#include "transport/subset_transport.h"

namespace nf {

class Exchange final : public Stage {
 public:
  // Borrows the transport. `options.codec` is not used. Precondition: ExchangePart::create()
  // accepts these options.
  Exchange(Transport& transport, const AllReduceOptions& options, Collective collective);

  struct Input {
    ExchangePart* part = nullptr;
    std::span<const Gradient> gradients = {};
    // In a reduce-scatter: the number of gradients in each shard, in the order of ShardBorders.
    std::span<const std::size_t> shards = {};
  };

  // Begins to sum the gradients of all inputs; `call.gradients` is not used. All ranks give the
  // same parts in the same order. Borrows the parts until the call is done. Precondition: there is
  // at least one, and they have the options of this exchange, except for the codec.
  Status start(const AllReduceCall& call, std::span<const Input> inputs);
  // For a sum that is part of another call: the ranks agree on `agreed` instead.
  Status start_as(const AllReduceCall& call, std::span<const Input> inputs,
                  const CallDescription& agreed);
  // Without the agreement stage: ranks have agreed already, on the loss scale too.
  Status start_agreed(const AllReduceCall& call, std::span<const Input> inputs);
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  // start(), then waits as AllReduce::run().
  Status run(const AllReduceCall& call, std::span<const Input> inputs);

  // The scale of the last call, once all ranks have agreed on it.
  LossScale loss_scale() const { return loss_scale_of(call_); }

 private:
  // The current stage of the call.
  enum class State { kAgree, kHostReduce, kStatistics, kSum, kHostGather, kDone };

  // The transport of the compressed sum.
  Transport& outer() { return outer_ ? static_cast<Transport&>(*outer_) : transport_; }
  bool is_hierarchical() const { return options_.topology == Topology::kHierarchical; }
  bool scatters() const { return collective_ == Collective::kReduceScatter; }
  // If there is only one host group, it has the whole sum.
  bool has_outer_sum() const { return schedule_.ranks > 1; }
  FrameKind frame_kind(std::uint32_t codec) const;
  FrameKind frame_kind() const;       // of all parts
  FrameKind host_frame_kind() const;  // within a host group

  Status set_call(const AllReduceCall& call, std::span<const Input> inputs);
  // Each begins a stage, or the next one if there is nothing to do in it.
  Status begin_host_reduce();
  Status begin_statistics();
  Status begin_sum();
  Status begin_host_gather();
  Status finish();
  Status end_stage();
  void count_traffic(const Executor& executor);
  void count_statistics();

  // Constant after construction.
  Transport& transport_;
  const AllReduceOptions options_;
  const Collective collective_;
  std::optional<SubsetTransport> inner_;  // this rank's host group
  std::optional<SubsetTransport> outer_;  // the ranks at the same position in all host groups
  Schedule schedule_;                     // of the compressed sum, over outer_ or all ranks
  Schedule inner_reduce_;
  Schedule inner_gather_;
  bool folds_values_ = false;  // some rank adds several messages to its values

  // State of the current call; buffers keep their capacity.
  State state_ = State::kDone;
  AllReduceCall call_;
  std::vector<ExchangePart*> parts_;
  std::vector<DescribedPart> described_;
  std::vector<TileCodec> tiles_;                // by part
  std::vector<StatisticsPart> statistics_;      // of the parts with statistics
  std::vector<ExchangePart*> with_statistics_;  // those parts
  std::optional<Agreement> agreement_;
  StatisticsStage statistics_stage_;
  Executor executor_;
  Executor host_executor_;
};

}  // namespace nf
