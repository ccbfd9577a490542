// The topology of a job's low-bit routes: a fixed choice, the candidates for a measurement, and the
// choice among measured ones (docs/decisions/0014-choose-the-topology-by-measurement.md). Pure
// functions, so all ranks choose alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/fabric.h"
#include "neuron_fabric/topology.h"

namespace nf {

// The one that the options name. By default: hierarchical if several ranks share a host and no
// route has error feedback, which devices do not support for that topology; otherwise direct, which
// takes two hops; with many ranks a tree, because the number of connections of direct costs more
// than the hops of a tree.
Topology topology_of(const FabricOptions& options, const Profile& profile, std::uint32_t ranks);

// The topologies to choose from; topology_of() is the first, and the only one if there is nothing
// to choose. All of them work for every route of the profile for which the first one does.
std::vector<Topology> topology_candidates(const FabricOptions& options, const Profile& profile,
                                          std::uint32_t ranks);

// A bucket of this model as it is at the end of training, if all regions are admitted.
struct TypicalBucket {
  std::string route;       // the low-bit one with the most values
  std::size_t values = 0;  // of all low-bit routes
};
// For buckets of about `bucket_values` values of all routes. nullopt if all routes are dense.
std::optional<TypicalBucket> typical_bucket(const Binding& binding, std::size_t bucket_values);

// How often a value is encoded on its longest path; 1 if repetitions add no error.
std::uint32_t encodes_of(Topology topology, const std::string& route, std::uint32_t host_group_size,
                         std::uint32_t ranks);

struct TopologyTime {
  Topology topology = Topology::kDirect;
  double seconds = 0;         // of one bucket, on the slowest rank
  std::uint32_t encodes = 1;  // encodes_of()
};

// The fastest; the first one unless it takes 10 % longer than another. Each doubling of the encodes
// of the first one costs about as much error as 5 % fewer bits, so it takes another 5 %.
// Precondition: there is at least one.
Topology choose_topology(std::span<const TopologyTime> times);

}  // namespace nf
