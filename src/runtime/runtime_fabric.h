// The Fabric of this library: what runtime/ decides, and collective/ does, put together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/admission.h"
#include "runtime/bucket_path.h"
#include "runtime/fabric_state.h"
#include "runtime/record.h"
#include "runtime/recorded_decisions.h"
#include "runtime/statistics_reducer.h"
#include "runtime/training_step.h"
#include "runtime/usefulness.h"

namespace nf {

class RuntimeFabric final : public Fabric {
 public:
  // Fabric::create() for gradients that `make_path` says how to sum.
  static Expected<std::unique_ptr<Fabric>> create(Transport& transport, DenseEngine& engine,
                                                  FabricOptions options, const MakePath& make_path);

  Expected<std::unique_ptr<BucketSum>> begin(const Bucket& bucket) override;
  Status sum_low_bit(BucketSum& bucket) override;
  Status finish(BucketSum& bucket) override;
  Status end_step() override;

  void observe_loss(double loss) override;
  void set_loss_scale(float scale) override;
  void report_capacity_breach() override;
  void detach() override;

  std::optional<bool> should_step() const override;
  std::uint64_t step() const override;
  const Binding& binding() const override { return binding_; }
  Topology topology() const override { return topology_; }
  std::vector<std::string> drain() override;

  std::string state() const override;
  Status load_state(std::string_view state) override;
  Expected<std::vector<Memory>> memory() const override { return path_->memory(step()); }
  Status load_memory(std::span<const Memory> memory) override;
  std::size_t held_bytes() const override { return path_->held_bytes(); }

 protected:
  DenseEngine& engine() override { return engine_; }
  Status remember_failure(Status why) override;

 private:
  RuntimeFabric(Transport& transport, DenseEngine& engine, FabricOptions options, Binding binding,
                StatisticsReducer reducer);

  // Link and codecs, on all ranks at the same time. Before anything else.
  Status measure();

  // All of these: the caller holds the mutex.
  // Whether its gradients are finite, once all of it is known.
  void judge(const TrainingStep& step);
  Status begin_step(std::unique_lock<std::mutex>& lock);
  Status compare_states(std::unique_lock<std::mutex>& lock);
  Status wait_for_statistics(std::unique_lock<std::mutex>& lock);
  void observe(TrainingStep& step);
  void decide();
  Status fail(Status why);
  FabricState current_state() const;

  std::size_t regions() const { return binding_.profile().regions.size(); }
  bool is_low_bit(std::uint32_t region) const { return admission_.decisions()[region].is_low_bit; }

  // Constant once created.
  Transport& transport_;
  DenseEngine& engine_;
  const FabricOptions options_;
  const Binding binding_;
  const Topology topology_;
  std::unique_ptr<BucketPath> path_;
  std::optional<RecordedDecisions> recorded_;  // instead of those from measured times

  StatisticsReducer statistics_reducer_;  // of the thread that ends steps

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  mutable std::condition_variable summed_;
  Admission admission_;
  std::unique_ptr<Usefulness> usefulness_;
  bool is_over_capacity_ = false;  // by what was observed for the step under way
  MeasuredInputs told_inputs_;     // that the records have
  RecordQueue records_;
  std::vector<BucketLayout> told_buckets_;  // that the records have
  std::vector<std::string> told_routes_;    // and what the profile named then, by region
  Status failure_;
  bool has_compared_ = false;  // its state with those of other ranks, before its first step
  std::shared_ptr<TrainingStep> under_way_;               // or the last one
  std::deque<std::shared_ptr<TrainingStep>> to_end_;      // begun
  std::deque<std::shared_ptr<TrainingStep>> to_observe_;  // summed, not yet taken into account
  std::uint64_t step_ = 0;  // under way until its last bucket has begun
  std::uint64_t judged_steps_ = 0;
  std::uint64_t summed_steps_ = 0;
  Duration last_begin_{};
  std::optional<bool> is_sound_;  // of the last finished step, where it was watched
  // To go with the next step.
  double loss_ = 0;
  std::uint32_t losses_ = 0;
  LossScale loss_scale_;         // its version is 1 + the step that it was last set for
  bool is_scale_fresh_ = false;  // set since the last step began
  bool capacity_breach_ = false;
};

}  // namespace nf
