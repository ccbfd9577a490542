#include "collective/dissemination.h"

namespace nf {

Dissemination::Dissemination(std::uint32_t ranks)
    : ranks_(ranks), base_(ranks > kDirectRanks ? kBase : std::max(ranks, 2u)) {
  std::uint32_t round = 0;
  for (std::uint64_t weight = 1; weight < ranks; weight *= base_, ++round) {
    for (std::uint64_t digit = 1; digit < base_ && digit * weight < ranks; ++digit) {
      hops_.push_back(
          {.round = round,
           .weight = static_cast<std::uint32_t>(weight),
           .distance = static_cast<std::uint32_t>(digit * weight),
           .count = static_cast<std::uint32_t>(std::min(weight, ranks - digit * weight))});
    }
  }
}

std::uint64_t Dissemination::scatter_hops() const {
  std::uint64_t hops = 0;
  for (const Hop& hop : hops_) {
    for_each_item(hop, 0, [&](std::uint32_t /*offset*/, std::uint32_t /*receiver*/) { ++hops; });
  }
  return hops;
}

}  // namespace nf
