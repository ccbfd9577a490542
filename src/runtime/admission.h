// Decides for each step which regions may use their low-bit routes: those that are safe and useful
// (docs/admission.md). A pure function of the binding, the statistics of earlier steps and the
// output of the cost model, which are the same on every rank. Not thread-safe.
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
  kForced,     // every region on its route from the first step, without checks
};

class Admission {
 public:
  // A breach while a region is dense keeps it dense for this many further steps.
  static constexpr std::uint64_t kQuietSteps = 10;

  // Borrows the binding. `ranks` is compared with the limit of the reducer's counters.
  Admission(const Binding& binding, std::uint32_t ranks,
            AdmissionMode mode = AdmissionMode::kMonitored);

  // Takes the statistics of every step once, in order. They affect the next decision. To be the
  // same on every rank, those of step t come before decide(t + 2) and after decide(t + 1).
  // Precondition: they cover every region.
  void observe(const StepStatistics& statistics);

  // Whether the cost model considers the low-bit route of each region useful. Initially all are.
  // Precondition: one value per region.
  void set_useful(const std::vector<bool>& useful);
  std::vector<bool> useful() const;

  // The decisions for `step`, one per region. Called once per step, in order. A region whose route
  // is `fp32` at that step is dense and kAdmitted.
  std::span<const Decision> decide(std::uint64_t step);

  // From the next decide() on every region is dense and kForced. Not part of the state.
  void detach() { is_detached_ = true; }
  bool is_detached() const { return is_detached_; }

  // By region, as of the last decide().
  std::span<const Decision> decisions() const { return state_.decisions; }
  // The routes in use: the profile's if low-bit, otherwise kDenseRoute.
  std::span<const std::string> routes() const { return state_.routes; }
  // Incremented by every decide() that changes a decision or a route.
  std::uint64_t epoch() const { return state_.epoch; }

  // The whole state as JSON, for a checkpoint. load() fails with kInvalidArgument, and changes
  // nothing, if the text is not a state or has other regions.
  std::string state() const;
  Status load(std::string_view state);

 private:
  void handle_breach(RegionState& region, Reason cause, bool is_low_bit) const;
  Decision decide_region(RegionState& region, std::uint64_t step) const;

  // Constant after construction.
  const Binding& binding_;
  AdmissionMode mode_;
  bool fits_reducer_;

  bool is_detached_ = false;
  Monitor monitor_;
  AdmissionState state_;  // except for the means, which the monitor holds
};

}  // namespace nf
