// The bits per element of a message, by the number of ranks that it sums.
//
// Every message adds an error proportional to the energy E of its sum, and one more bit divides the
// error by four. The first messages of a chain sum one rank, the last ones nearly all ranks. The
// finished sum is sent n - 1 times but adds its error once. The best budget of a message is
// therefore the mean budget plus half the difference between log2(E / times sent) and its mean over
// all transfers.
#pragma once

#include <cstdint>
#include <vector>

#include "neuron_fabric/codec.h"

namespace nf {

struct HopBudget {
  std::uint32_t max_contributions = 0;
  double bits = 0;  // per element
};

// Budgets in [min, max] whose mean over all transfers is at most `bits`, by contributions: 1, 2 to
// 3, 4 to 7, ..., and all if the finished sum is sent. Empty for less than two ranks.
std::vector<HopBudget> hop_budgets(SumOrder order, double bits, double min, double max);

}  // namespace nf
