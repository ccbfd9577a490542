// Monitors a run: keeps running means of losses and norms and reports regions that exceed their
// limits. A pure function of the profile and the statistics so far. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "neuron_fabric/profile.h"
#include "runtime/decision.h"
#include "runtime/step_statistics.h"

namespace nf {

// Mean and variance of about the last kLength values. The first kLength values have equal weight;
// each later one has a weight of 1 / kLength, so that older ones decay.
struct RunningMean {
  static constexpr std::uint64_t kLength = 50;
  static constexpr std::uint64_t kMinCount = 10;  // values before limits apply

  std::uint64_t count = 0;
  double mean = 0;
  double variance = 0;

  void add(double value);
  bool is_known() const { return count >= kMinCount; }

  friend bool operator==(const RunningMean&, const RunningMean&) = default;
};

// Whether a step sent more lines per second than the reducer accepts; false if either is unknown.
bool exceeds_rate(const ReducerCapacity& reducer, const StepStatistics& statistics);

class Monitor {
 public:
  // The normal values of this run.
  struct Means {
    RunningMean loss;
    std::vector<RunningMean> norms;  // by region
  };

  explicit Monitor(const Profile& profile);

  // Takes the statistics of the next step. Returns by region the limit that was exceeded: the first
  // of kNonFinite, kCapacity, kLossSpike, kNormSpike and kErrorBudget that applies. The result is
  // valid until the next call. Precondition: the statistics cover every region.
  const std::vector<std::optional<Reason>>& observe(const StepStatistics& statistics);

  const Means& means() const { return means_; }
  // Precondition: as many norms as regions.
  void set_means(Means means) { means_ = std::move(means); }

 private:
  bool exceeds_capacity(const StepStatistics& statistics) const;
  // Both add the value to the running mean.
  bool is_loss_spike(double loss);
  bool is_norm_spike(double norm, RunningMean& normal) const;

  // Constant after construction.
  HealthLimits limits_;
  ReducerCapacity reducer_;
  std::vector<double> error_budgets_;  // by region

  Means means_;
  std::vector<std::optional<Reason>> breaches_;
};

}  // namespace nf
