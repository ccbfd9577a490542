// The collectives of a bucket's routes, as far as host and device agree: their arguments, and the
// shares of the regions in their traffic and time.
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

// The values of one route. In a reduce-scatter, the gradients are in the order of ShardBorders,
// with the keys of their shards.
struct RouteValues {
  std::vector<Gradient> gradients;
  std::vector<std::size_t> shards;  // in a reduce-scatter: the number of gradients in each shard
};

class RouteCalls {
 public:
  // Borrows the binding. `positions` is that of ShardBorders.
  explicit RouteCalls(const Binding& binding, std::uint32_t positions = 1);

  // The call that sums a bucket, without gradients.
  static AllReduceCall call_of(const BucketWork& work);
  // The values of one route, which replace those in `values`.
  void fill(const BucketWork& work, std::span<const Segment> segments, RouteValues& values) const;

 private:
  Gradient gradient_of(const BucketWork& work, const BucketSlot& slot) const;

  const Binding& binding_;
  const std::uint32_t positions_;
  std::vector<std::uint64_t> keys_;  // by parameter
};

// The share of a region in the values of one route.
struct RegionShare {
  std::uint32_t region = 0;
  double share = 0;
};
std::vector<RegionShare> shares_of(std::span<const Segment> segments);

// `traffic` is indexed by region. `before` and `after` are the counters of the route.
void add_traffic(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 const Traffic& before, const Traffic& after);
// The same for dense values that do not go to the engine.
void add_dense_traffic(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                       const Traffic& before, const Traffic& after);
void add_seconds(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 double seconds);

// One part of the exchange of a bucket, with its counters before and after.
struct JoinedSegments {
  std::span<const Segment> segments = {};
  bool is_dense = false;
  Traffic before = {};
  Traffic after = {};
};
// Adds the bytes of all parts. Returns the shares of the regions in the time of the exchange, which
// is divided by bytes; none if nothing was sent.
std::vector<RegionShare> add_exchange(std::span<RegionTraffic> traffic,
                                      std::span<const JoinedSegments> parts);

}  // namespace nf
