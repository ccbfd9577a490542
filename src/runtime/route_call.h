// The collective of one route of a bucket, as far as host and device agree: its arguments, and the
// shares of the regions in its traffic and time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/binding.h"
#include "runtime/bucket_work.h"
#include "runtime/plan.h"
#include "runtime/training_step.h"

namespace nf {

class RouteCalls {
 public:
  // Borrows the binding. `positions` is that of ShardBorders.
  explicit RouteCalls(const Binding& binding, std::uint32_t positions = 1);

  // The call that sums these segments of a bucket. Valid until the next make(). In a
  // reduce-scatter, the gradients are in the order of ShardBorders, with the keys of their shards.
  AllReduceCall make(const BucketWork& work, std::span<const Segment> segments);
  // The number of gradients in each shard of that call; empty in an all-reduce.
  std::span<const std::size_t> shards() const { return shards_; }

 private:
  Gradient gradient_of(const BucketWork& work, const BucketSlot& slot) const;

  const Binding& binding_;
  const std::uint32_t positions_;
  std::vector<std::uint64_t> keys_;  // by parameter
  std::vector<Gradient> gradients_;
  std::vector<std::size_t> shards_;
};

// The share of a region in the values of one all-reduce.
struct RegionShare {
  std::uint32_t region = 0;
  double share = 0;
};
std::vector<RegionShare> shares_of(const RoutedSegments& routed);

// `traffic` is indexed by region. `before` and `after` are the counters of the all-reduce.
void add_traffic(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 const Traffic& before, const Traffic& after);
void add_seconds(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 double seconds);

}  // namespace nf
