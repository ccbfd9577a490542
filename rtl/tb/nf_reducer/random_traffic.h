// Random regions and requests for them: workers in any order, close lines and far ones, idle gaps,
// a receiver that is not always ready, and now and then a request that must be refused.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "line.h"

namespace nf::rtl {

struct Round {
  std::vector<RegionConfig> regions;
  std::vector<Request> requests;
  std::string ready;
};

// One round of regions of these modes and workers, of about `writes` lines together.
Round random_round(std::mt19937_64& random, const Limits& limits, const std::vector<Mode>& modes,
                   const std::vector<std::uint64_t>& workers, std::uint64_t writes);

}  // namespace nf::rtl
