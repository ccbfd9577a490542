#include "nf/quality/error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nf::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormal95 = 1.96;

// Student's t at 97.5 %, to 1 %; of the next lower whole number of degrees of freedom, at least 1.
double student95(double freedom) {
  constexpr double kFew[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (freedom < std::size(kFew) + 1) {
    return kFew[static_cast<std::size_t>(std::max(freedom, 1.0)) - 1];
  }
  return kNormal95 + 2.5 / freedom;
}

// Infinite if the exact sum is zero and the sum is not, or if the sum has NaN.
double vnmse_of(const ErrorSums& sums) {
  if (sums.error == 0) return 0;
  if (sums.energy == 0 || std::isnan(sums.error)) return kInfinity;
  return sums.error / sums.energy;
}

// The sums of the values [first, last) of the piece, as one block.
ErrorSums measure_block(const SummedPiece& piece, std::size_t first, std::size_t last,
                        std::span<const float> weights) {
  ErrorSums sums;
  for (std::size_t i = first; i < last; ++i) {
    const double sum = piece.sum[i];
    const double exact = piece.exact[i];
    const double error = (sum - exact) * (sum - exact);
    sums.error += error;
    if (!weights.empty()) sums.felt += error * weights[i];
    sums.energy += exact * exact;
    sums.square += sum * sum;
    sums.missing += (exact - sum) * exact;
    if (!piece.dropped.empty()) sums.dropped += piece.dropped[i] * exact;
  }
  sums.blocks = {{.lost = sums.missing - sums.dropped, .energy = sums.energy}};
  return sums;
}

// The variance of the slope, and its degrees of freedom. A block that has most of the energy
// decides the slope almost alone: without that block the others have another one, which the
// jackknife counts in full, and there are as many degrees of freedom as blocks of equal energy
// would give.
void estimate_slope(const ErrorSums& all, TrialError& trial) {
  double lost = 0;
  for (const ErrorSums::Block& block : all.blocks) lost += block.lost / all.energy;
  double variance = 0;
  double concentration = 0;
  std::size_t with_energy = 0;
  for (const ErrorSums::Block& block : all.blocks) {
    const double share = block.energy / all.energy;
    if (share == 1) continue;  // the only block with energy
    const double change = (block.lost / all.energy - lost * share) / (1 - share);
    variance += change * change;
    concentration += share * share;
    with_energy += share > 0 ? 1 : 0;
  }
  const bool is_known = with_energy > 1;
  const auto count = static_cast<double>(with_energy);
  trial.slope_variance = is_known ? variance * (count - 1) / count : kNan;
  trial.slope_freedom = is_known ? 1 / concentration - 1 : kNan;
}

}  // namespace

ErrorSums& ErrorSums::operator+=(const ErrorSums& other) {
  error += other.error;
  energy += other.energy;
  square += other.square;
  missing += other.missing;
  dropped += other.dropped;
  felt += other.felt;
  blocks.insert(blocks.end(), other.blocks.begin(), other.blocks.end());
  return *this;
}

ErrorSums measure_piece(const SummedPiece& piece, std::size_t block,
                        std::span<const float> weights) {
  ErrorSums sums;
  for (std::size_t first = 0; first < piece.sum.size(); first += block) {
    sums += measure_block(piece, first, std::min(first + block, piece.sum.size()), weights);
  }
  return sums;
}

TrialError trial_error(std::span<const ErrorSums> by_parameter) {
  TrialError trial;
  ErrorSums all;
  for (const ErrorSums& parameter : by_parameter) {
    const bool is_zero = parameter.error == 0 && parameter.energy == 0;
    trial.parameters.push_back(is_zero ? kNan : vnmse_of(parameter));
    all += parameter;
  }
  trial.vnmse = vnmse_of(all);
  trial.slope = 1 - all.missing / all.energy;
  trial.dropped = all.dropped / all.energy;
  trial.cosine = (all.energy - all.missing) / std::sqrt(all.energy * all.square);
  trial.felt = all.felt;
  estimate_slope(all, trial);
  return trial;
}

MeanError mean_error(std::span<const TrialError> trials,
                     std::span<const ParameterShape> parameters) {
  MeanError mean;
  const auto count = static_cast<double>(trials.size());
  double slope_variance = 0;
  double slope_freedom = 0;
  for (const TrialError& trial : trials) {
    mean.vnmse += trial.vnmse / count;
    mean.slope += trial.slope / count;
    mean.dropped += trial.dropped / count;
    mean.cosine += trial.cosine / count;
    mean.felt += trial.felt / count;
    slope_variance += trial.slope_variance / (count * count);
    slope_freedom += trial.slope_freedom;
  }
  mean.slope_ci = student95(slope_freedom) * std::sqrt(slope_variance);

  mean.vnmse_ci = kNan;
  if (trials.size() > 1) {
    double squares = 0;
    for (const TrialError& trial : trials) squares += std::pow(trial.vnmse - mean.vnmse, 2);
    mean.vnmse_ci = student95(count - 1) * std::sqrt(squares / (count - 1) / count);
  }

  double weights = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    double vnmse = 0;
    for (const TrialError& trial : trials) vnmse += trial.parameters[p] / count;
    if (std::isnan(vnmse)) continue;
    const auto weight = static_cast<double>(parameters[p].count);
    mean.parameter_vnmse += weight * vnmse;
    weights += weight;
    if (vnmse > mean.worst_parameter_vnmse) {
      mean.worst_parameter_vnmse = vnmse;
      mean.worst_parameter = p;
    }
  }
  if (weights > 0) mean.parameter_vnmse /= weights;
  return mean;
}

}  // namespace nf::cli
