#include "neuron_fabric/topology.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "neuron_fabric/codec_spec.h"

namespace nf {
namespace {

constexpr std::array kTopologies = {Topology::kRing,     Topology::kTree,
                                    Topology::kDirect,   Topology::kHalvingDoubling,
                                    Topology::kEndpoint, Topology::kHierarchical};

}  // namespace

std::string_view to_string(Topology topology) {
  switch (topology) {
    case Topology::kRing: return "ring";
    case Topology::kTree: return "tree";
    case Topology::kHalvingDoubling: return "halving_doubling";
    case Topology::kDirect: return "direct";
    case Topology::kEndpoint: return "endpoint";
    case Topology::kHierarchical: return "hierarchical";
  }
  return "unknown";
}

std::span<const Topology> all_topologies() { return kTopologies; }

Expected<Topology> find_topology(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Topology topology : kTopologies) {
    if (to_string(topology) == name) return topology;
    names.push_back(to_string(topology));
  }
  const std::string_view hint = nearest(name, names);
  return Status(ErrorCode::kBadConfig,
                fmt::format("there is no topology '{}'{}", name,
                            hint.empty() ? "" : fmt::format("; did you mean '{}'?", hint)));
}

SumShape sum_shape(Topology topology) {
  switch (topology) {
    case Topology::kRing:
    case Topology::kHierarchical: return SumShape::kChain;
    case Topology::kTree:
    case Topology::kHalvingDoubling: return SumShape::kTree;
    case Topology::kDirect:
    case Topology::kEndpoint: return SumShape::kStar;
  }
  return SumShape::kChain;
}

}  // namespace nf
