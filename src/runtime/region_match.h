// The region of a parameter, and the patterns that match it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/profile.h"

namespace nf {

// The patterns of a region that match a parameter; null if the region has none of that kind.
struct RegionMatch {
  const std::string* name = nullptr;
  const std::string* module_type = nullptr;
};

// nullopt if the region does not match.
std::optional<RegionMatch> match(const Region& region, const ModelParameter& parameter);

// The first region that matches.
std::optional<std::uint32_t> first_match(std::span<const Region> regions,
                                         const ModelParameter& parameter);

}  // namespace nf
