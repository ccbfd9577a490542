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

// Up to this size, the dense values of a bucket with low-bit routes travel with these: another
// collective of the engine would cost more than their bytes. The same for host and device.
inline constexpr std::size_t kMaxJoinedDenseBytes = 1 << 20;

// Consecutive values of one parameter in the bucket.
struct Segment {
  BucketSlot slot;
  std::uint32_t region = 0;
};

struct RoutedSegments {
  std::string route;
  std::vector<Segment> segments;
};

struct Plan {
  std::vector<Segment> dense;
  std::vector<RoutedSegments> low_bit;  // by route

  bool is_dense() const { return low_bit.empty(); }
};

// The rows of a bucket: one per rank in a reduce-scatter, otherwise one.
struct BucketRows {
  std::uint32_t count = 1;
  std::uint32_t own = 0;
};

// Fails with kInvalidArgument if the values are not `rows` rows of one size, or if a slot has an
// unknown parameter, more values than its parameter, ends beyond the bucket, or lies in two rows.
Status check_slots(const Binding& binding, const Bucket& bucket, std::uint32_t rows = 1);

// The slots in an order that does not depend on their offsets: the last parameter first, which is
// about the order in which DDP fills its buckets. Results that depend on the order of parameters in
// a bucket (widths, rounding, the engine's sum of gathered values, sums of norms) then do not
// change when DDP rebuilds its buckets.
std::vector<BucketSlot> in_parameter_order(std::span<const BucketSlot> slots);

// `routes` are the routes in use, by region; kDenseRoute for dense ones. Small parameters are
// dense. Segments are in_parameter_order().
Plan make_plan(const Binding& binding, std::span<const BucketSlot> slots,
               std::span<const std::string> routes);

// Adjacent dense segments of a row form one run.
struct DenseRun {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::uint32_t row = 0;
  std::size_t at = 0;  // its place in its row of the gathered values
};

// The dense values of a bucket, gathered for the engine: rows of one size.
struct DenseRuns {
  std::vector<DenseRun> runs;
  std::size_t row_size = 0;  // the values of the longest row
};
// `row_size` is that of the bucket.
DenseRuns runs_of(std::span<const Segment> segments, std::size_t row_size, std::uint32_t rows = 1);

}  // namespace nf
