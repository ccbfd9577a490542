// What happened, as JSON (docs/telemetry.md), and the queue in which it waits to be read.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/recorded_decisions.h"
#include "runtime/training_step.h"
#include "runtime/usefulness.h"

namespace nf {

// Of a job as it begins.
std::string job_record(const Binding& binding, const FabricOptions& options, Topology topology,
                       const LinkFigures& link, std::uint32_t rank, std::uint32_t ranks);

// Of a step whose statistics have been summed. `shadow` is what low bits would have done, where
// they only would.
std::string step_record(const Binding& binding, const TrainingStep& step,
                        const Usefulness::Prediction& prediction,
                        const Usefulness::Prediction* shadow);

// How the buckets of a step lie, and what of them may travel at low bits, where either has changed.
std::string buckets_record(const Binding& binding, const TrainingStep& step);

// A region that travels otherwise than in the step before, or for another reason.
std::string decision_record(const Binding& binding, const TrainingStep& step, std::uint32_t region,
                            const Decision& before);

// What measured times decide from this step on, if that has changed.
std::string measured_record(const Binding& binding, std::uint64_t step,
                            const MeasuredInputs& inputs);

// Bounded: where nobody reads, the oldest are lost.
class RecordQueue {
 public:
  void push(std::string record);
  std::vector<std::string> drain();

 private:
  static constexpr std::size_t kMost = 4096;
  std::deque<std::string> records_;
};

}  // namespace nf
