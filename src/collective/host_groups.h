// The ranks that a rank works with in a hierarchical sum. Ranks of one host are consecutive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"
#include "neuron_fabric/topology.h"

namespace nf {

// The topology between the ranks at the same position in all host groups. Both send the same bytes.
// Without a gather half, direct encodes every value once and adds in FP32.
constexpr Topology topology_between_hosts(Collective collective) {
  return collective == Collective::kReduceScatter ? Topology::kDirect : Topology::kRing;
}

// The number of ranks in a host group; 1 without host groups. At least 1, even if the options are
// invalid.
inline std::uint32_t positions_of(const AllReduceOptions& options) {
  if (options.topology != Topology::kHierarchical) return 1;
  return std::max(options.host_group_size, 1u);
}

// The ranks of its own host group, in order.
inline std::vector<std::uint32_t> host_group_of(std::uint32_t rank, std::uint32_t size) {
  std::vector<std::uint32_t> members(size);
  std::iota(members.begin(), members.end(), rank / size * size);
  return members;
}

// The ranks with its position in all host groups, itself included, in order.
inline std::vector<std::uint32_t> same_position(std::uint32_t rank, std::uint32_t size,
                                                std::uint32_t ranks) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t member = rank % size; member < ranks; member += size) {
    members.push_back(member);
  }
  return members;
}

}  // namespace nf
