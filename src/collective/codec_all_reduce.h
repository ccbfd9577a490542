// All-reduce with a codec: agree, share statistics, sum. In groups, a sum at full precision inside
// each group comes first, and a copy inside each group last.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/agreement.h"
#include "collective/executor.h"
#include "collective/residuals.h"
#include "collective/statistics_stage.h"
#include "neuron_fabric/all_reduce.h"
#include "transport/subset_transport.h"

namespace nf {

class CodecAllReduce final : public AllReduce {
 public:
  static Expected<std::unique_ptr<CodecAllReduce>> create(Transport& transport,
                                                          const AllReduceOptions& options);
  // Fails with kBadConfig where so many ranks cannot be summed as `options` say.
  static Status check(const Codec& codec, const AllReduceOptions& options, std::uint32_t ranks);

  Status start(const AllReduceCall& call) override;
  // For a sum on behalf of another call: that is what ranks are to agree on.
  Status start_as(const AllReduceCall& call, const CallDescription& agreed);
  // The same if ranks have agreed already, on the loss scale, too.
  Status start_agreed(const AllReduceCall& call);
  // The scale of the last call, once all ranks have agreed on it.
  LossScale loss_scale() const { return loss_scale_of(call_); }
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  Traffic traffic() const override { return traffic_; }
  std::vector<Remembered> remembered() const override { return residuals_.remembered(); }
  Status remember(std::span<const Remembered> memory) override;
  void forget(std::uint64_t parameter) override { residuals_.forget(parameter); }
  void undo(std::uint64_t parameter) override { residuals_.undo(parameter); }
  void reset() override { residuals_.clear(); }

 protected:
  Transport& transport() override { return transport_; }
  Duration timeout() const override { return options_.timeout; }

 private:
  enum class Progress { kAgree, kGroupReduce, kStatistics, kSum, kGroupGather, kDone };

  CodecAllReduce(Transport& transport, const AllReduceOptions& options,
                 std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense);

  Transport& outer() { return outer_ ? static_cast<Transport&>(*outer_) : transport_; }
  bool is_grouped() const { return options_.topology == Topology::kHierarchical; }
  FrameKind frame_kind(const Codec& codec) const;

  Status take(const AllReduceCall& call);
  // Each begins a stage. They may find that there is nothing to do in it.
  Status begin_group_reduce();
  Status begin_statistics();
  Status begin_sum();
  Status begin_group_gather();
  Status keep_group_sum();
  Status finish();
  void count(const Executor& executor);

  // The values to work on: the caller's own, or an FP32 copy where sums could not be kept in them.
  Status prepare_work();
  void widen(ConstValues values, std::span<float> out) const;
  TileCodec tile_codec(const SumPlan& plan) const;

  // Constant after construction.
  Transport& transport_;
  const AllReduceOptions options_;
  const std::unique_ptr<Codec> codec_;
  const std::unique_ptr<Codec> dense_;    // fp32: inside groups, and to widen values
  std::optional<SubsetTransport> inner_;  // the rank's group
  std::optional<SubsetTransport> outer_;  // the ranks with its place in the other groups
  Schedule schedule_;                     // between the members of outer_, or of all ranks
  Schedule inner_reduce_;
  Schedule inner_gather_;
  bool folds_values_ = false;  // some rank adds several messages to its values

  // Of the call under way; they keep their room.
  SumPlan plan_;
  SumPlan group_plan_;
  Progress progress_ = Progress::kDone;
  AllReduceCall call_;
  std::vector<Gradient> gradients_;
  std::vector<ParameterView> parameters_;
  std::vector<Piece> domain_;  // what this rank sums with outer_
  std::optional<Agreement> agreement_;
  StatisticsStage statistics_stage_;
  Executor executor_;
  Executor group_executor_;
  Traffic traffic_;

  // Room, kept from call to call.
  std::vector<std::size_t> counts_;
  std::vector<Piece> whole_;
  std::vector<float> work_;
  std::vector<std::byte> statistics_;
  std::vector<std::span<std::byte>> statistics_by_parameter_;
  std::vector<std::span<const std::byte>> combined_;

  Residuals residuals_;
};

}  // namespace nf
