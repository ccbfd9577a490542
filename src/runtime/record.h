// Telemetry records as JSON (docs/telemetry.md), and the queue that holds them until they are read.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/recorded_decisions.h"
#include "runtime/topology_choice.h"
#include "runtime/training_step.h"
#include "runtime/usefulness.h"

namespace nf {

// At the start of a job.
// `times` are those of the measured topologies, if any.
std::string job_record(const Binding& binding, const FabricOptions& options, Topology topology,
                       std::span<const TopologyTime> times, const LinkFigures& link,
                       std::uint32_t rank, std::uint32_t ranks);

// The topology of a loaded state, which replaces that of the job.
std::string topology_record(Topology topology);

// For a step whose statistics have been reduced. `shadow` is the prediction for low bits in shadow
// mode, otherwise null.
std::string step_record(const Binding& binding, const TrainingStep& step,
                        const Usefulness::Prediction& prediction,
                        const Usefulness::Prediction* shadow);

// The layout of the buckets and their low-bit candidates, if either has changed.
std::string buckets_record(const Binding& binding, const TrainingStep& step);

// A region whose route or reason differs from the previous step.
std::string decision_record(const Binding& binding, const TrainingStep& step, std::uint32_t region,
                            const Decision& before);

// The decisions from measured times from this step on, if they have changed.
std::string measured_record(const Binding& binding, std::uint64_t step,
                            const MeasuredInputs& inputs);

// Bounded: if it is full, the oldest record is dropped.
class RecordQueue {
 public:
  void push(std::string record);
  std::vector<std::string> drain();

 private:
  static constexpr std::size_t kMaxRecords = 4096;
  std::deque<std::string> records_;
};

}  // namespace nf
