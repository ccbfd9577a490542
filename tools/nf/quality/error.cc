#include "nf/quality/error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nf::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormal95 = 1.96;

// Student's t at 97.5 %, to 1 %.
double student95(std::size_t freedom) {
  constexpr double kFew[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (freedom <= std::size(kFew)) return kFew[freedom - 1];
  return kNormal95 + 2.5 / static_cast<double>(freedom);
}

// Infinite if the exact sum is zero and the sum is not, or if the sum has NaN.
double vnmse_of(const ErrorSums& sums) {
  if (sums.error == 0) return 0;
  if (sums.energy == 0 || std::isnan(sums.error)) return kInfinity;
  return sums.error / sums.energy;
}

// The sums of the values [first, last) of the piece, as one block.
ErrorSums measure_block(const SummedPiece& piece, std::size_t first, std::size_t last) {
  ErrorSums sums;
  for (std::size_t i = first; i < last; ++i) {
    const double sum = piece.sum[i];
    const double exact = piece.exact[i];
    sums.error += (sum - exact) * (sum - exact);
    sums.energy += exact * exact;
    sums.square += sum * sum;
    sums.missing += (exact - sum) * exact;
    if (!piece.dropped.empty()) sums.dropped += piece.dropped[i] * exact;
  }
  const double lost = sums.missing - sums.dropped;
  sums.blocks = 1;
  sums.lost_lost = lost * lost;
  sums.lost_energy = lost * sums.energy;
  sums.energy_energy = sums.energy * sums.energy;
  return sums;
}

}  // namespace

ErrorSums& ErrorSums::operator+=(const ErrorSums& other) {
  error += other.error;
  energy += other.energy;
  square += other.square;
  missing += other.missing;
  dropped += other.dropped;
  blocks += other.blocks;
  lost_lost += other.lost_lost;
  lost_energy += other.lost_energy;
  energy_energy += other.energy_energy;
  return *this;
}

ErrorSums measure_piece(const SummedPiece& piece, std::size_t block) {
  ErrorSums sums;
  for (std::size_t first = 0; first < piece.sum.size(); first += block) {
    sums += measure_block(piece, first, std::min(first + block, piece.sum.size()));
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
  // The lost share of the energy is a ratio of two sums over blocks. Its variance follows from the
  // residuals of the blocks (ratio estimator).
  const double lost = (all.missing - all.dropped) / all.energy;
  const double residuals =
      all.lost_lost - 2 * lost * all.lost_energy + lost * lost * all.energy_energy;
  trial.slope_variance = all.blocks < 2 ? kNan
                                        : std::max(residuals, 0.0) / (all.energy * all.energy) *
                                              all.blocks / (all.blocks - 1);
  return trial;
}

MeanError mean_error(std::span<const TrialError> trials,
                     std::span<const ParameterShape> parameters) {
  MeanError mean;
  const auto count = static_cast<double>(trials.size());
  double slope_variance = 0;
  for (const TrialError& trial : trials) {
    mean.vnmse += trial.vnmse / count;
    mean.slope += trial.slope / count;
    mean.dropped += trial.dropped / count;
    mean.cosine += trial.cosine / count;
    slope_variance += trial.slope_variance / (count * count);
  }
  mean.slope_ci = kNormal95 * std::sqrt(slope_variance);

  mean.vnmse_ci = kNan;
  if (trials.size() > 1) {
    double squares = 0;
    for (const TrialError& trial : trials) squares += std::pow(trial.vnmse - mean.vnmse, 2);
    mean.vnmse_ci = student95(trials.size() - 1) * std::sqrt(squares / (count - 1) / count);
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
