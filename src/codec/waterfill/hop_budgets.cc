#include "codec/waterfill/hop_budgets.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nf {
namespace {

// Of any two ranks' values. Real gradients lie between 0 (late in training) and 0.5 (at its start);
// what is lost by a wrong guess is small (docs/decisions/0007-widths-per-hop.md).
constexpr double kCorrelation = 0.05;
// Budgets are whole multiples of this: no mathematics library rounds logarithms that badly.
constexpr double kStep = 1.0 / 256;

// Messages with the same number of contributions, up to a factor of two.
struct Class {
  std::uint32_t most_contributions = 0;
  double transfers = 0;
  double worth = 0;  // sum over transfers of log2(energy / times sent)
};

double energy(double contributions) {
  return contributions + kCorrelation * contributions * (contributions - 1);
}

// Calls work(contributions, messages) for the messages of one chunk before the finished one.
template <typename Work>
void for_each_hop(SumOrder order, Work work) {
  switch (order.shape) {
    case SumShape::kStar: work(1, order.ranks - 1); break;
    case SumShape::kChain:
      for (std::uint32_t k = 1; k < order.ranks; ++k) work(k, 1u);
      break;
    case SumShape::kTree:
      // ceil(n / k) ranks still hold sums; where they are odd, the last one waits.
      for (std::uint32_t k = 1; k < order.ranks; k *= 2) work(k, ((order.ranks - 1) / k + 1) / 2);
      break;
  }
}

}  // namespace

std::vector<HopBudget> hop_budgets(SumOrder order, double bits, double least, double most) {
  if (order.ranks < 2) return {};
  std::vector<Class> classes;
  for_each_hop(order, [&](std::uint32_t contributions, std::uint32_t messages) {
    const std::uint32_t top = 2 * std::bit_floor(contributions) - 1;
    if (classes.empty() || classes.back().most_contributions < top) classes.push_back({top});
    classes.back().transfers += messages;
    classes.back().worth += messages * std::log2(energy(contributions));
  });
  classes.back().most_contributions = std::min(classes.back().most_contributions, order.ranks - 1);
  const double copies = order.ranks - 1;
  classes.push_back({order.ranks, copies, copies * std::log2(energy(order.ranks) / copies)});

  double transfers = 0;
  double worth = 0;
  for (const Class& one : classes) {
    transfers += one.transfers;
    worth += one.worth;
  }
  // Towards the mean, as far as the limits ask for it.
  double scale = 1;
  std::vector<HopBudget> budgets;
  for (const Class& one : classes) {
    const double extra = (one.worth / one.transfers - worth / transfers) / 2;
    if (extra < 0) scale = std::min(scale, (bits - least) / -extra);
    if (extra > 0) scale = std::min(scale, (most - bits) / extra);
    budgets.push_back({one.most_contributions, extra});
  }
  for (HopBudget& budget : budgets) {
    budget.bits = std::floor((bits + scale * budget.bits) / kStep) * kStep;
  }
  return budgets;
}

}  // namespace nf
