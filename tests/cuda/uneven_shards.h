// The shards of a reduce-scatter in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "neuron_fabric/reduce_scatter.h"

namespace nf::test {

// The number of gradients in each shard of a call. If there are more than two ranks, sizes differ
// and some shards are empty.
inline std::vector<std::size_t> uneven_shards(std::size_t gradients, std::uint32_t ranks) {
  std::vector<std::size_t> shards(ranks, 0);
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {
    if (rank != 1) shards[rank] = (gradients + 1) / 2;
    gradients -= shards[rank];
  }
  shards.back() = gradients;
  return shards;
}

// The first gradient of a shard.
inline std::size_t first_of(std::span<const std::size_t> shards, std::uint32_t shard) {
  return std::accumulate(shards.begin(), shards.begin() + shard, std::size_t{0});
}

// A call of these gradients, whose keys are those of whole parameters.
struct ShardedCall {
  ShardedCall(std::span<const Gradient> all, std::uint32_t ranks)
      : gradients(all.begin(), all.end()), counts(uneven_shards(all.size(), ranks)) {
    std::size_t at = 0;
    for (std::uint32_t owner = 0; owner < ranks; ++owner) {
      shards.push_back({all.subspan(at, counts[owner])});
      for (std::size_t end = at + counts[owner]; at < end; ++at) {
        gradients[at].parameter = shard_key(gradients[at].parameter, owner);
      }
    }
  }

  std::vector<Gradient> gradients;  // with the keys of their shards
  std::vector<std::size_t> counts;  // of the gradients in each shard
  std::vector<Shard> shards;        // for ReduceScatter; borrows the gradients
};

}  // namespace nf::test
