// Which region a parameter belongs to, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/profile.h"

namespace nf {

// The patterns by which a region takes a parameter; null where the region has none of that kind.
struct RegionMatch {
  const std::string* name = nullptr;
  const std::string* module_type = nullptr;
};

// Empty where the region does not take it.
std::optional<RegionMatch> match(const Region& region, const ModelParameter& parameter);

// The first region that takes it.
std::optional<std::uint32_t> first_match(std::span<const Region> regions,
                                         const ModelParameter& parameter);

}  // namespace nf
