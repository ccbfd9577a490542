// How many bits a message should have by the number of ranks that it sums.
//
// Every message adds an error in proportion to the energy E of what it sums, and a bit more divides
// it by four. The first messages of a chain sum one rank and the last ones nearly all of them, and
// the finished sum is sent n - 1 times but adds its error once. So bits are worth most where
// E / (times sent) is greatest: the best budget of a message is the mean budget plus half the
// logarithm of that, less its mean over all transfers.
#pragma once

#include <cstdint>
#include <vector>

#include "neuron_fabric/codec.h"

namespace nf {

struct HopBudget {
  std::uint32_t most_contributions = 0;
  double bits = 0;  // an element
};

// Budgets whose mean over all transfers is at most `bits`, none below `least` or above `most`, by
// contributions: 1, 2 to 3, 4 to 7, ..., and all. Empty where there are no hops to tell apart.
std::vector<HopBudget> hop_budgets(SumOrder order, double bits, double least, double most);

}  // namespace nf
