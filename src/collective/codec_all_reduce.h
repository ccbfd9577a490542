// All-reduce with a codec, in three stages: agree, reduce statistics, sum. With kHierarchical, a
// full-precision reduce within each host group precedes the statistics, and a gather within each
// host group follows the sum. A reduce-scatter has the same stages without the gather halves, and
// its chunks are the shards of the caller.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/agreement.h"
#include "collective/chunk_plans.h"
#include "collective/executor.h"
#include "collective/residuals.h"
#include "collective/shard_borders.h"
#include "collective/statistics_stage.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"
#include "transport/subset_transport.h"

namespace nf {

class CodecAllReduce final : public AllReduce {
 public:
  static Expected<std::unique_ptr<CodecAllReduce>> create(
      Transport& transport, const AllReduceOptions& options,
      Collective collective = Collective::kAllReduce);
  // Fails with kBadConfig if the codec or the host groups do not support this number of ranks.
  static Status check(const Codec& codec, const AllReduceOptions& options, std::uint32_t ranks);

  Status start(const AllReduceCall& call) override;
  // For a sum that is part of another call: the ranks agree on `agreed` instead.
  Status start_as(const AllReduceCall& call, const CallDescription& agreed);
  // Without the agreement stage: ranks have agreed already, on the loss scale too.
  Status start_agreed(const AllReduceCall& call);
  // A reduce-scatter. `shards` is the number of gradients in each shard, in the order of
  // ShardBorders.
  Status start_shards(const AllReduceCall& call, std::span<const std::size_t> shards);
  // start_shards(), then waits.
  Status run_shards(const AllReduceCall& call, std::span<const std::size_t> shards);
  // The scale of the last call, once all ranks have agreed on it.
  LossScale loss_scale() const { return loss_scale_of(call_); }
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  Traffic traffic() const override { return traffic_; }
  std::vector<MemoryEntry> save_memory() const override { return residuals_.save_memory(); }
  Status load_memory(std::span<const MemoryEntry> memory) override;
  void forget(std::uint64_t parameter) override { residuals_.forget(parameter); }
  void undo(std::uint64_t parameter) override { residuals_.undo(parameter); }
  void reset() override { residuals_.clear(); }

  using AllReduce::complete;

 protected:
  Transport& transport() override { return transport_; }
  Duration timeout() const override { return options_.timeout; }

 private:
  // The current stage of the call.
  enum class State { kAgree, kHostReduce, kStatistics, kSum, kHostGather, kDone };

  CodecAllReduce(Transport& transport, const AllReduceOptions& options, Collective collective,
                 std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense);

  // The transport of the compressed sum.
  Transport& outer() { return outer_ ? static_cast<Transport&>(*outer_) : transport_; }
  bool is_hierarchical() const { return options_.topology == Topology::kHierarchical; }
  bool scatters() const { return collective_ == Collective::kReduceScatter; }
  FrameKind frame_kind(const Codec& codec) const;

  Status set_call(const AllReduceCall& call);
  // Each begins a stage, or the next one if there is nothing to do in it.
  Status begin_host_reduce();
  Status begin_statistics();
  Status begin_sum();
  Status begin_host_gather();
  Status copy_work_to_result(std::span<const Piece> pieces);
  Status finish();
  // Whether the sum, as far as this rank has it, contains neither NaN nor Inf.
  bool is_finite() const;
  void count_traffic(const Executor& executor);

  // Sets up the values to work on: the caller's, or an FP32 copy if those cannot hold partial sums.
  Status prepare_work();
  void widen(ConstValues values, std::span<float> out) const;
  TileCodec tile_codec(const ChunkPlans& plans) const;
  // In a reduce-scatter, finds the parameters of each chunk.
  Status set_borders();
  std::span<const Piece> own_shard() const;

  // Constant after construction.
  Transport& transport_;
  const AllReduceOptions options_;
  const Collective collective_;
  const std::unique_ptr<Codec> codec_;
  const std::unique_ptr<Codec> dense_;    // fp32: within host groups, and to widen values
  std::optional<SubsetTransport> inner_;  // this rank's host group
  std::optional<SubsetTransport> outer_;  // the ranks at the same position in all host groups
  Schedule schedule_;                     // of the compressed sum, over outer_ or all ranks
  Schedule inner_reduce_;
  Schedule inner_gather_;
  bool folds_values_ = false;  // some rank adds several messages to its values

  // State of the current call; buffers keep their capacity.
  ChunkPlans plans_;
  ChunkPlans host_plans_;
  State state_ = State::kDone;
  AllReduceCall call_;
  std::vector<Gradient> gradients_;
  std::vector<ParameterView> parameters_;
  std::vector<Piece> domain_;        // the values that this rank sums over outer_
  std::vector<std::size_t> shards_;  // of a reduce-scatter: the number of gradients in each
  ShardBorders borders_;             // empty in an all-reduce
  std::optional<Agreement> agreement_;
  StatisticsStage statistics_stage_;
  Executor executor_;
  Executor host_executor_;
  Traffic traffic_;

  // Buffers, reused by every call.
  std::vector<std::size_t> counts_;
  std::vector<Piece> whole_;
  std::vector<float> work_;
  std::vector<std::byte> statistics_;
  std::vector<std::span<std::byte>> statistics_by_parameter_;
  std::vector<std::span<const std::byte>> combined_;

  Residuals residuals_;
};

}  // namespace nf
