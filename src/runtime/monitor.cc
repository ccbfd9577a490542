#include "runtime/monitor.h"

#include <algorithm>
#include <cmath>

namespace nf {
namespace {

// A larger loss counts as non-finite. Squares of smaller ones are finite.
constexpr double kMaxLoss = 1e150;

// The minimum deviation of a loss, as a share of its mean: a small move of a nearly constant loss
// is not a spike.
constexpr double kMinDeviation = 0.05;

// Compares ‖g - Q(g)‖² with its share of ‖g‖². NaN exceeds every budget.
bool exceeds_budget(const RegionStatistics& region, double budget) {
  return region.sample_energy > 0 && !(region.error_energy <= budget * region.sample_energy);
}

}  // namespace

void RunningMean::add(double value) {
  count += 1;
  const double weight = 1 / static_cast<double>(std::min(count, kLength));
  const double difference = value - mean;
  mean += weight * difference;
  variance = (1 - weight) * (variance + weight * difference * difference);
}

Monitor::Monitor(const Profile& profile)
    : limits_(profile.health), reducer_(profile.reducer), breaches_(profile.regions.size()) {
  means_.norms.resize(profile.regions.size());
  for (const Region& region : profile.regions) {
    error_budgets_.push_back(region.error_budget.value_or(limits_.error_budget));
  }
}

bool exceeds_rate(const ReducerCapacity& reducer, const StepStatistics& statistics) {
  return reducer.lines_per_second > 0 && statistics.seconds > 0 &&
         statistics.lines > reducer.lines_per_second * statistics.seconds;
}

bool Monitor::exceeds_capacity(const StepStatistics& statistics) const {
  return statistics.capacity_breaches > 0 || exceeds_rate(reducer_, statistics);
}

// A value beyond the limit enters the mean as the limit. A single spike hardly changes the mean,
// but a new level is accepted after some tens of steps.

bool Monitor::is_loss_spike(double loss) {
  if (!(std::abs(loss) < kMaxLoss)) return true;
  RunningMean& normal = means_.loss;
  const double deviation =
      std::max(std::sqrt(normal.variance), kMinDeviation * std::abs(normal.mean));
  const double limit = normal.mean + limits_.loss_spike * deviation;
  // A deviation of 0 means that the loss was always 0: no basis for a limit.
  const bool is_spike = normal.is_known() && deviation > 0 && loss > limit;
  normal.add(is_spike ? limit : loss);
  return is_spike;
}

bool Monitor::is_norm_spike(double norm, RunningMean& normal) const {
  // A region without gradients in this step does not affect its mean.
  if (!(norm > 0)) return false;
  const double limit = limits_.norm_spike * normal.mean;
  const bool is_spike = normal.is_known() && norm > limit;
  normal.add(is_spike ? limit : norm);
  return is_spike;
}

const std::vector<std::optional<Reason>>& Monitor::observe(const StepStatistics& statistics) {
  const bool is_over_capacity = exceeds_capacity(statistics);
  const bool has_loss_spike = statistics.losses > 0 && is_loss_spike(statistics.loss);
  for (std::size_t r = 0; r < breaches_.size(); ++r) {
    const RegionStatistics& region = statistics.regions[r];
    const bool is_non_finite = region.non_finite > 0 || !std::isfinite(region.energy);
    const bool has_norm_spike =
        !is_non_finite && is_norm_spike(std::sqrt(region.energy), means_.norms[r]);

    std::optional<Reason>& breach = breaches_[r];
    breach.reset();
    if (is_non_finite) {
      breach = Reason::kNonFinite;
    } else if (is_over_capacity) {
      breach = Reason::kCapacity;
    } else if (has_loss_spike) {
      breach = Reason::kLossSpike;
    } else if (has_norm_spike) {
      breach = Reason::kNormSpike;
    } else if (exceeds_budget(region, error_budgets_[r])) {
      breach = Reason::kErrorBudget;
    }
  }
  return breaches_;
}

}  // namespace nf
