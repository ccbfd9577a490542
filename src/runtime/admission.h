// Which regions may travel at low bits, step by step: safe and useful (docs/admission.md). A pure
// function of the binding, the statistics of earlier steps and what the cost model found useful,
// all of which are the same on every rank. Not for several threads at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/binding.h"
#include "runtime/admission_state.h"
#include "runtime/decision.h"
#include "runtime/monitor.h"
#include "runtime/step_statistics.h"

namespace nf {

enum class AdmissionMode {
  kMonitored,  // safe and useful
  kForced,     // every region on its route from the first step, whatever happens
};

class Admission {
 public:
  // A breach while a region is dense keeps it dense for so many steps more.
  static constexpr std::uint64_t kQuietSteps = 10;

  // Borrows the binding. `ranks` against the reducer's counters.
  Admission(const Binding& binding, std::uint32_t ranks,
            AdmissionMode mode = AdmissionMode::kMonitored);

  // Takes the statistics of the next step, each step once and in order. What they show counts from
  // the next decision on; to be the same on every rank, those of step t come before decide(t + 2)
  // and after decide(t + 1). Precondition: statistics of every region.
  void observe(const StepStatistics& statistics);

  // What the cost model holds of each region's low-bit route; all useful until it has spoken.
  // Precondition: one a region.
  void set_useful(const std::vector<bool>& useful);
  std::vector<bool> useful() const;

  // The decisions for `step`, one a region. Called once a step, in order. A region whose route is
  // `fp32` at that step is dense and kAdmitted.
  std::span<const Decision> decide(std::uint64_t step);

  // From the next decide() on every region is dense and kForced. The state does not tell.
  void detach() { is_detached_ = true; }
  bool is_detached() const { return is_detached_; }

  // By region, as of the latest decide(): to compare with the next.
  std::span<const Decision> decisions() const { return state_.decisions; }
  // The routes in use: the profile's where low-bit, else kDenseRoute.
  std::span<const std::string> routes() const { return state_.routes; }
  // Goes up by one with every decide() whose decisions or routes differ from those of the one
  // before.
  std::uint64_t epoch() const { return state_.epoch; }

  // Everything it remembers, as JSON, to go on elsewhere with the same decisions. load() fails with
  // kInvalidArgument, and changes nothing, where the state is of other regions or no state at all.
  std::string state() const;
  Status load(std::string_view state);

 private:
  void take_breach(RegionState& region, Reason cause, bool is_low_bit) const;
  Decision decide_region(RegionState& region, std::uint64_t step) const;

  // Constant after construction.
  const Binding& binding_;
  AdmissionMode mode_;
  bool fits_reducer_;

  bool is_detached_ = false;
  Monitor monitor_;
  AdmissionState state_;  // but for the means, which the monitor holds
};

}  // namespace nf
