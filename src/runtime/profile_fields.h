// The numeric settings of a profile, each named once. Parser, checks, printer and comparison
// iterate over them.
#pragma once

#include <cstdint>
#include <string_view>

#include "neuron_fabric/profile.h"

namespace nf {

struct Range {
  double min = 0;
  double max = 0;
  bool is_open = false;  // excludes `min`

  bool has(double value) const { return (is_open ? value > min : value >= min) && value <= max; }
};

inline constexpr double kMaxSteps = 1e12;
inline constexpr double kMaxWorkers = 65'536;
inline constexpr double kMaxLines = 1e15;
// A limit of this size is never exceeded: it disables a check.
inline constexpr double kMaxLimit = 1e6;

inline constexpr Range kErrorBudgets{0, kMaxLimit, true};
inline constexpr Range kParameterSizes{0, 1e12};

struct Setting {
  std::string_view key;
  Range range;
  std::string_view meaning;
};

// Calls visit(setting, field) for every setting, in the order in which they are printed.
template <typename Health, typename Visit>
void visit_health(Health& health, Visit visit) {
  constexpr Range kSteps{0, kMaxSteps};
  constexpr Range kOneStepOrMore{1, kMaxSteps};
  visit(Setting{"warm_up_steps", kSteps, "dense, at the start"}, health.warm_up_steps);
  visit(Setting{"norm_spike", {1, kMaxLimit, true}, "times the running mean of a region's norm"},
        health.norm_spike);
  visit(
      Setting{"loss_spike", {0, kMaxLimit, true}, "deviations above the running mean of the loss"},
      health.loss_spike);
  visit(Setting{"error_budget", kErrorBudgets, "squared error over squared norm"},
        health.error_budget);
  visit(Setting{"cool_down_steps", kOneStepOrMore, "dense, after a fallback"},
        health.cool_down_steps);
  visit(Setting{"probation_steps", kSteps, "low-bit again, on trial"}, health.probation_steps);
  visit(Setting{"most_fallbacks", {0, kMaxLimit}, "more of them within the window: locked out"},
        health.most_fallbacks);
  visit(Setting{"lock_out_window_steps", kOneStepOrMore, "in which fallbacks are counted"},
        health.lock_out_window_steps);
}

template <typename Reducer, typename Visit>
void visit_reducer(Reducer& reducer, Visit visit) {
  visit(Setting{"most_workers", {0, kMaxWorkers}, "contributions that its counters hold"},
        reducer.most_workers);
  visit(Setting{"lines_per_second", {0, kMaxLines}, "of 64 bytes, from all workers together"},
        reducer.lines_per_second);
  visit(Setting{"queue_lines", {0, kMaxLines}, "of one bucket, from all workers together"},
        reducer.queue_lines);
}

}  // namespace nf
