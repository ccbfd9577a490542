// The topologies of an all-reduce (docs/collectives.md). Their properties are in one table,
// src/collective/topology.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/status.h"

namespace nf {

// The agreement before a call sends the numeric value: append new topologies at the end.
enum class Topology {
  kRing,
  kTree,
  kHalvingDoubling,
  kDirect,
  kEndpoint,
  kHierarchical,
};

// All topologies, in the order of help texts.
std::span<const Topology> all_topologies();
// Those with a chunk path: all but kHierarchical, which combines two others.
std::span<const Topology> flat_topologies();

// As spelled on the command line: "halving_doubling".
std::string_view to_string(Topology topology);
// "ring, tree, direct".
std::string to_string(std::span<const Topology> topologies);
// One sentence, without the full stop.
std::string_view description(Topology topology);
// Fails with kBadConfig and the nearest known name.
Expected<Topology> find_topology(std::string_view name);

// How partial sums grow. For kHierarchical: between the host groups.
SumShape sum_shape(Topology topology);

}  // namespace nf
