#include "neuron_fabric/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace nf {
namespace {

// Those in which rank r owns chunk r of as many chunks as ranks.
constexpr std::array kScattering = {Topology::kRing, Topology::kDirect, Topology::kHierarchical};

}  // namespace

Expected<Collective> find_collective(std::string_view name) {
  constexpr std::array kAll = {Collective::kAllReduce, Collective::kReduceScatter};
  for (const Collective collective : kAll) {
    if (to_string(collective) == name) return collective;
  }
  return Status(ErrorCode::kBadConfig, fmt::format("collective '{}' is unknown; known are {}, {}",
                                                   name, to_string(kAll[0]), to_string(kAll[1])));
}

Status check_topology(Collective collective, Topology topology) {
  if (collective == Collective::kAllReduce) return {};
  if (std::ranges::find(kScattering, topology) != kScattering.end()) return {};
  return {ErrorCode::kBadConfig,
          fmt::format("{} does not support topology '{}'; supported are {}", to_string(collective),
                      to_string(topology), to_string(std::span(kScattering)))};
}

}  // namespace nf
