// The implementation of Fabric: fabric_impl.cc for the buckets, step_decisions.cc for the decisions
// before a step, training_loop.cc for the calls between two steps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/admission.h"
#include "runtime/bucket_path.h"
#include "runtime/fabric_state.h"
#include "runtime/record.h"
#include "runtime/recorded_decisions.h"
#include "runtime/statistics_reducer.h"
#include "runtime/topology_choice.h"
#include "runtime/training_step.h"
#include "runtime/usefulness.h"

namespace nf {

class FabricImpl {
 public:
  static Expected<std::unique_ptr<FabricImpl>> create(Transport& transport, FabricOptions options,
                                                      const MakePath& make_path);

  // As in fabric.h.
  Status reduce_bucket(const Bucket& bucket);
  Expected<std::unique_ptr<BucketWork>> begin(const Bucket& bucket);
  Status sum_low_bit(BucketWork& work);
  Status finish(BucketWork& work);
  Status end_step();

  void observe_loss(double loss);
  void set_loss_scale(float scale);
  void report_capacity_breach();
  void detach();

  std::optional<bool> should_step() const;
  std::uint64_t step() const;
  const Binding& binding() const { return binding_; }
  Topology topology() const;
  std::size_t held_bytes() const { return path_->held_bytes(); }
  std::vector<std::string> drain();

  std::string state() const;
  Status load_state(std::string_view state);
  Expected<std::vector<Fabric::Memory>> memory() const;
  Status load_memory(std::span<const Fabric::Memory> memory);

 private:
  FabricImpl(Transport& transport, FabricOptions options, Binding binding,
             StatisticsReducer reducer, Topology topology, MakePath make_path);

  // Makes a path and a cost model for topology_.
  Status set_path();
  void set_usefulness();
  // Measures the link and the codecs, on all ranks at the same time. Called first. `times` are
  // those of the topologies, for the record.
  Status measure(std::span<const TopologyTime> times);
  // Continues along the topology of the state, so that a resumed job has the bits of an
  // uninterrupted one. A no-op if the options have a topology, if the state is from another number
  // of ranks, or if its topology is none of those to choose from. Precondition: the caller holds
  // the mutex.
  Status load_topology(const FabricState& state);
  // Makes all further calls fail: with `why`, or with the first failure.
  Status remember_failure(Status why);

  // Precondition of all of these: the caller holds the mutex.
  // Stores whether the gradients of the step are finite, once all its norms are known.
  void set_is_finite(const TrainingStep& step);
  Status begin_step(std::unique_lock<std::mutex>& lock);
  Status compare_states(std::unique_lock<std::mutex>& lock);
  Status wait_for_statistics(std::unique_lock<std::mutex>& lock);
  void observe(TrainingStep& step);
  void decide();
  Status fail(Status why);
  FabricState current_state() const;

  std::size_t regions() const { return binding_.profile().regions.size(); }
  bool scatters() const { return rows_.count > 1; }
  // Whether norms are known in end_step() only.
  bool has_late_norms() const { return path_->is_asynchronous() || scatters(); }

  // Constant after create().
  Transport& transport_;
  const FabricOptions options_;
  const Binding binding_;
  const BucketRows rows_;
  const MakePath make_path_;
  CostFigures figures_;
  std::unique_ptr<BucketPath> path_;           // changed by load_topology()
  std::optional<RecordedDecisions> recorded_;  // replaces decisions from measured times

  StatisticsReducer statistics_reducer_;  // used by the thread of end_step()

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Topology topology_;
  Admission admission_;
  std::unique_ptr<Usefulness> usefulness_;
  bool is_over_capacity_ = false;  // by the statistics observed for the current step
  RecordQueue records_;
  // As of their last records, to record changes only.
  MeasuredInputs recorded_inputs_;
  std::vector<BucketLayout> recorded_buckets_;
  std::vector<std::string> recorded_routes_;  // of the profile, by region
  Status failure_;
  bool has_compared_ = false;              // the states of all ranks, before the first step
  std::shared_ptr<TrainingStep> current_;  // the current step, or the last one
  std::deque<std::shared_ptr<TrainingStep>> to_end_;      // begun
  std::deque<std::shared_ptr<TrainingStep>> to_observe_;  // summed, not yet observed
  std::uint64_t step_ = 0;           // the current one until its last bucket has begun
  std::uint64_t checked_steps_ = 0;  // with a known is_finite_
  std::uint64_t summed_steps_ = 0;   // with reduced statistics
  Duration last_begin_{};
  std::optional<bool>
      is_finite_;  // the gradients of the last finished step; nullopt: not monitored
  // For the next step.
  double loss_ = 0;
  std::uint32_t losses_ = 0;
  LossScale loss_scale_;         // its version is 1 + the step that it was last set for
  bool is_scale_fresh_ = false;  // set since the last step began
  bool capacity_breach_ = false;
};

}  // namespace nf
