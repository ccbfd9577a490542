// The plan of one bucket: the route of each segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/fabric.h"

namespace nf {

// Consecutive values of one parameter in the bucket.
struct Segment {
  BucketSlot slot;
  std::uint32_t region = 0;
};

// The segments of one route; one all-reduce sums them.
struct RoutedSegments {
  std::string route;
  std::vector<Segment> segments;

  std::size_t values() const;
};

struct Plan {
  std::vector<Segment> dense;
  std::vector<RoutedSegments> low_bit;  // by route

  bool is_dense() const { return low_bit.empty(); }
};

// Fails with kInvalidArgument if a slot has an unknown parameter, more values than its parameter,
// or ends beyond the bucket.
Status check_slots(const Binding& binding, const Bucket& bucket);

// The slots in an order that does not depend on their offsets: the last parameter first, which is
// about the order in which DDP fills its buckets. Results that depend on the order of parameters in
// a bucket (widths, rounding, the engine's sum of gathered values, sums of norms) then do not
// change when DDP rebuilds its buckets.
std::vector<BucketSlot> in_parameter_order(std::span<const BucketSlot> slots);

// `routes` are the routes in use, by region; kDenseRoute for dense ones. Small parameters are
// dense. Segments are in_parameter_order().
Plan make_plan(const Binding& binding, std::span<const BucketSlot> slots,
               std::span<const std::string> routes);

// Adjacent dense segments form one run.
struct DenseRun {
  std::size_t offset = 0;
  std::size_t count = 0;
};
std::vector<DenseRun> runs_of(std::span<const Segment> segments);

}  // namespace nf
