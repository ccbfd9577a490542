#include "runtime/monitor.h"

#include <algorithm>
#include <cmath>

namespace nf {
namespace {

// Beyond this a loss counts as not finite: squares of what is smaller are.
constexpr double kLargestLoss = 1e150;

// The least deviation of a loss, as a share of its mean: a loss that barely moves is not in trouble
// because it moved by a hair.
constexpr double kLeastDeviation = 0.05;

// ‖g - Q(g)‖² against its share of ‖g‖². An error that is no number is too large.
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

// What is beyond a limit enters the mean as if it were at the limit. One spike hardly moves it; a
// new level that lasts is learnt within some tens of steps instead of being trouble for ever.

bool Monitor::judge_loss(double loss) {
  if (!(std::abs(loss) < kLargestLoss)) return true;
  RunningMean& normal = means_.loss;
  const double deviation =
      std::max(std::sqrt(normal.variance), kLeastDeviation * std::abs(normal.mean));
  const double limit = normal.mean + limits_.loss_spike * deviation;
  // Without any deviation the loss was 0 all the time, and nothing is known.
  const bool is_spike = normal.is_known() && deviation > 0 && loss > limit;
  normal.add(is_spike ? limit : loss);
  return is_spike;
}

bool Monitor::judge_norm(double norm, RunningMean& normal) const {
  // A region that took no part in the step says nothing of its usual size.
  if (!(norm > 0)) return false;
  const double limit = limits_.norm_spike * normal.mean;
  const bool is_spike = normal.is_known() && norm > limit;
  normal.add(is_spike ? limit : norm);
  return is_spike;
}

const std::vector<std::optional<Reason>>& Monitor::observe(const StepStatistics& statistics) {
  const bool is_over_capacity = exceeds_capacity(statistics);
  const bool is_loss_spike = statistics.losses > 0 && judge_loss(statistics.loss);
  for (std::size_t r = 0; r < breaches_.size(); ++r) {
    const RegionStatistics& region = statistics.regions[r];
    const bool is_non_finite = region.non_finite > 0 || !std::isfinite(region.energy);
    const bool is_norm_spike =
        !is_non_finite && judge_norm(std::sqrt(region.energy), means_.norms[r]);

    std::optional<Reason>& breach = breaches_[r];
    breach.reset();
    if (is_non_finite) {
      breach = Reason::kNonFinite;
    } else if (is_over_capacity) {
      breach = Reason::kCapacity;
    } else if (is_loss_spike) {
      breach = Reason::kLossSpike;
    } else if (is_norm_spike) {
      breach = Reason::kNormSpike;
    } else if (exceeds_budget(region, error_budgets_[r])) {
      breach = Reason::kErrorBudget;
    }
  }
  return breaches_;
}

}  // namespace nf
