// The shards of a reduce-scatter in the list of all its gradients. They are in the order of their
// owner's position in its host group, then of its host group, so that the shards that a host group
// sums for one position are adjacent. Without host groups, all ranks have one position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf {

// Calls visit(owner) for `shards` shards in their order.
template <typename Visit>
void for_each_owner(std::uint32_t shards, std::uint32_t positions, Visit visit) {
  for (std::uint32_t position = 0; position < positions; ++position) {
    for (std::uint32_t owner = position; owner < shards; owner += positions) visit(owner);
  }
}

// Where shards begin, as in SumDomain::borders.
struct ShardBorders {
  std::vector<std::size_t> by_position;  // the shards of a position are one chunk
  std::vector<std::size_t> by_host;      // the shards of this rank's position

  // `shards` is the number of gradients in each shard, in their order. Fails unless there are as
  // many as ranks.
  Status assign(std::span<const std::size_t> shards, std::uint32_t ranks, std::uint32_t positions,
                std::uint32_t rank);
};

}  // namespace nf
