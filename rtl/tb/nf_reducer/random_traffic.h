// Random regions and requests: workers in any order, back-to-back and distant accesses to a line,
// idle gaps, a receiver that is not always ready, and some requests that must be rejected.
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

// One round with a region per mode and worker count, and about `writes` line writes in total.
Round random_round(std::mt19937_64& random, const Limits& limits, const std::vector<Mode>& modes,
                   const std::vector<std::uint64_t>& workers, std::uint64_t writes);

}  // namespace nf::rtl
