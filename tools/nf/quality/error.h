// How far a sum is from the exact one (docs/quality.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/simulate.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

// Sums over some of the elements; those of several parts add up.
struct ErrorSums {
  double error = 0;    // (sum - exact)^2
  double energy = 0;   // exact^2
  double square = 0;   // sum^2
  double missing = 0;  // (exact - sum) * exact
  double dropped = 0;  // what messages had no bits for * exact

  // Over blocks, which are independent of each other: of what is missing and was not dropped,
  // called lost, and the energy.
  double blocks = 0;
  double lost_lost = 0;
  double lost_energy = 0;
  double energy_energy = 0;

  ErrorSums& operator+=(const ErrorSums& other);
};

// Of one piece, in blocks of so many values.
ErrorSums measure_piece(const SummedPiece& piece, std::size_t block);

// The figures of one trial.
struct TrialError {
  double vnmse = 0;
  std::vector<double> parameters;  // vnmse of each; NaN where there is nothing to be wrong about
  double slope = 0;
  double slope_variance = 0;
  double dropped = 0;
  double cosine = 0;
};

TrialError trial_error(std::span<const ErrorSums> by_parameter);

// The figures of all trials: means, and 95 % half widths where they are called ci.
struct MeanError {
  double vnmse = 0;
  double vnmse_ci = 0;  // between trials; NaN for a single one
  double parameter_vnmse = 0;
  double worst_parameter_vnmse = 0;
  std::size_t worst_parameter = 0;  // index
  double slope = 0;
  double slope_ci = 0;  // from the blocks of all trials
  double dropped = 0;
  double cosine = 0;
};

// Precondition: there is a trial.
MeanError mean_error(std::span<const TrialError> trials,
                     std::span<const ParameterShape> parameters);

}  // namespace nf::cli
