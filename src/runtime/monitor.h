// Watches a run for signs of trouble: what is normal for it, and which region is beyond its limits.
// A pure function of the profile and the statistics so far. Not for several threads at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "neuron_fabric/profile.h"
#include "runtime/decision.h"
#include "runtime/step_statistics.h"

namespace nf {

// Mean and variance of about the last kLength values: all alike until there are as many, from then
// on each with a weight of 1 / kLength, so that older ones fade.
struct RunningMean {
  static constexpr std::uint64_t kLength = 50;
  static constexpr std::uint64_t kLeast = 10;  // values to judge others by

  std::uint64_t count = 0;
  double mean = 0;
  double variance = 0;

  void add(double value);
  bool is_known() const { return count >= kLeast; }

  friend bool operator==(const RunningMean&, const RunningMean&) = default;
};

// Whether a step sent more lines a second than the reducer takes; false if either is unknown.
bool exceeds_rate(const ReducerCapacity& reducer, const StepStatistics& statistics);

class Monitor {
 public:
  // What is normal for this run.
  struct Means {
    RunningMean loss;
    std::vector<RunningMean> norms;  // by region
  };

  explicit Monitor(const Profile& profile);

  // Takes the statistics of the next step. By region, what is beyond its limits in that step: the
  // first of kNonFinite, kCapacity, kLossSpike, kNormSpike and kErrorBudget that applies. The
  // result is valid until the next call. Precondition: statistics of every region.
  const std::vector<std::optional<Reason>>& observe(const StepStatistics& statistics);

  const Means& means() const { return means_; }
  // Precondition: as many norms as regions.
  void set_means(Means means) { means_ = std::move(means); }

 private:
  bool exceeds_capacity(const StepStatistics& statistics) const;
  // Both learn from what they judge.
  bool judge_loss(double loss);
  bool judge_norm(double norm, RunningMean& normal) const;

  // Constant after construction.
  HealthLimits limits_;
  ReducerCapacity reducer_;
  std::vector<double> error_budgets_;  // by region

  Means means_;
  std::vector<std::optional<Reason>> breaches_;
};

}  // namespace nf
