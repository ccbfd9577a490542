// The error of a sum relative to the exact sum (docs/quality.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/simulate.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

// Sums over a subset of the elements. The sums of disjoint subsets can be added.
struct ErrorSums {
  double error = 0;    // (sum - exact)^2
  double energy = 0;   // exact^2
  double square = 0;   // sum^2
  double missing = 0;  // (exact - sum) * exact
  double dropped = 0;  // (values that got no bits) * exact

  double felt = 0;  // (sum - exact)^2 times the weight of the element

  // Blocks of values, which are independent of each other.
  struct Block {
    double lost = 0;  // missing - dropped
    double energy = 0;
  };
  std::vector<Block> blocks;

  ErrorSums& operator+=(const ErrorSums& other);
};

// The sums of one piece, in blocks of `block` values. `weights` of the felt error: one per value of
// the piece, or none.
ErrorSums measure_piece(const SummedPiece& piece, std::size_t block,
                        std::span<const float> weights = {});

// The figures of one trial.
struct TrialError {
  double vnmse = 0;
  std::vector<double> parameters;  // vnmse of each; NaN if sum and exact sum are zero
  double slope = 0;
  double slope_variance = 0;
  double slope_freedom = 0;  // degrees of freedom of slope_variance
  double dropped = 0;
  double cosine = 0;
  double felt = 0;  // the sum of ErrorSums::felt
};

// The interval of the slope is that of a ratio of two sums over blocks, by the jackknife.
TrialError trial_error(std::span<const ErrorSums> by_parameter);

// Means over all trials. The fields named *_ci are 95 % confidence half-widths.
struct MeanError {
  double vnmse = 0;
  double vnmse_ci = 0;  // over trials; NaN for a single trial
  double parameter_vnmse = 0;
  double worst_parameter_vnmse = 0;
  std::size_t worst_parameter = 0;  // index
  double slope = 0;
  double slope_ci = 0;  // from the blocks of all trials
  double dropped = 0;
  double cosine = 0;
  double felt = 0;
};

// Precondition: `trials` is not empty.
MeanError mean_error(std::span<const TrialError> trials,
                     std::span<const ParameterShape> parameters);

}  // namespace nf::cli
