// The values of a reduce-scatter, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "neuron_fabric/reduce_scatter.h"
#include "support/ranks.h"

namespace nf::test {

// One rank's values of all shards. Parameter i of every shard is a part of the same parameter.
using Shards = std::vector<Parameters>;

// Shards as a call takes them. Borrows the values.
class ShardViews {
 public:
  explicit ShardViews(Shards& values);

  std::span<const Shard> shards() const { return shards_; }

 private:
  std::vector<std::vector<Gradient>> gradients_;
  std::vector<Shard> shards_;
};

// The own shard of every rank after a reduce-scatter of `by_rank`, which must succeed on every
// rank. `faults` apply to rank 0.
std::vector<Parameters> reduce_scatter(const AllReduceOptions& options, std::vector<Shards> by_rank,
                                       const FaultPlan& faults = {});

}  // namespace nf::test
