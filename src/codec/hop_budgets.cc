#include "codec/hop_budgets.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nf {
namespace {

// The assumed correlation between the values of two ranks. Real gradients have 0 (late in training)
// to 0.5 (at its start); a wrong assumption costs little (docs/decisions/0007-widths-per-hop.md).
constexpr double kCorrelation = 0.05;
// Budgets are multiples of this, so that rounding errors of the maths library do not matter.
constexpr double kStep = 1.0 / 256;

// Messages whose numbers of contributions differ by less than a factor of two.
struct Class {
  std::uint32_t max_contributions = 0;
  double transfers = 0;
  double worth = 0;  // sum over transfers of log2(energy / times sent)
};

double energy(double contributions) {
  return contributions + kCorrelation * contributions * (contributions - 1);
}

// Calls work(contributions, messages) for the partial sums of one chunk.
template <typename Work>
void for_each_hop(SumOrder order, Work work) {
  switch (order.shape) {
    case SumShape::kStar: work(1, order.ranks - 1); break;
    case SumShape::kChain:
      for (std::uint32_t k = 1; k < order.ranks; ++k) work(k, 1u);
      break;
    case SumShape::kTree:
      // ceil(n / k) ranks hold partial sums; if that number is odd, the last one is idle.
      for (std::uint32_t k = 1; k < order.ranks; k *= 2) work(k, ((order.ranks - 1) / k + 1) / 2);
      break;
  }
}

}  // namespace

std::vector<HopBudget> hop_budgets(SumOrder order, double bits, double min, double max) {
  if (order.ranks < 2) return {};
  std::vector<Class> classes;
  for_each_hop(order, [&](std::uint32_t contributions, std::uint32_t messages) {
    const std::uint32_t top = 2 * std::bit_floor(contributions) - 1;
    if (classes.empty() || classes.back().max_contributions < top) classes.push_back({top});
    classes.back().transfers += messages;
    classes.back().worth += messages * std::log2(energy(contributions));
  });
  classes.back().max_contributions = std::min(classes.back().max_contributions, order.ranks - 1);
  if (order.gathers) {
    const double copies = order.ranks - 1;
    classes.push_back({order.ranks, copies, copies * std::log2(energy(order.ranks) / copies)});
  }

  double transfers = 0;
  double worth = 0;
  for (const Class& one : classes) {
    transfers += one.transfers;
    worth += one.worth;
  }
  // Scale the differences from the mean so that all budgets are within the limits.
  double scale = 1;
  std::vector<HopBudget> budgets;
  for (const Class& one : classes) {
    const double extra = (one.worth / one.transfers - worth / transfers) / 2;
    if (extra < 0) scale = std::min(scale, (bits - min) / -extra);
    if (extra > 0) scale = std::min(scale, (max - bits) / extra);
    budgets.push_back({one.max_contributions, extra});
  }
  for (HopBudget& budget : budgets) {
    budget.bits = std::floor((bits + scale * budget.bits) / kStep) * kStep;
  }
  return budgets;
}

}  // namespace nf
