// The ways in which ranks can sum a bucket together (docs/collectives.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/status.h"

namespace nf {

enum class Topology {
  kRing,             // neighbours only; n - 1 hops a way
  kTree,             // a binary tree for every chunk, rotated; about log2 n hops. Any n
  kHalvingDoubling,  // recursive halving, then doubling: log2 n rounds, for small messages
  kDirect,           // every rank straight to the owner of a chunk: two hops
  kEndpoint,         // everything to rank 0 and back
  kHierarchical,     // at full precision inside groups of ranks, compressed between the groups
};

// "ring", "tree", "halving_doubling", "direct", "endpoint", "hierarchical".
std::string_view to_string(Topology topology);
std::span<const Topology> all_topologies();
// Fails with kBadConfig and the nearest known name.
Expected<Topology> find_topology(std::string_view name);

// How partial sums grow. Of kHierarchical it is that of the ring between the groups.
SumShape sum_shape(Topology topology);

}  // namespace nf
