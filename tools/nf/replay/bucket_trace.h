// The buckets of a training job, one after the other: what `nf replay` feeds to a reducer.
//
// JSON, one object a line. The first describes the job, every further one a bucket:
//   {"format": "neuron_fabric.buckets", "version": 1, "name": "resnet18", "workers": 4}
//   {"step": 0, "values": 262144, "low_bit_values": 210844}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

struct BucketTraffic {
  std::uint64_t step = 0;
  std::uint64_t values = 0;
  std::uint64_t low_bit_values = 0;  // of them, in regions that may travel at low bits

  std::uint64_t bytes() const { return 4 * values; }
};

struct BucketTrace {
  std::string name;
  std::uint32_t workers = 0;  // 0 where the trace does not say
  std::vector<BucketTraffic> buckets;
};

inline constexpr std::uint64_t kMostBucketValues = std::uint64_t{1} << 36;

// A file, or `shapes:FILE`: one step of a model whose parameters FILE has as `nf plan` reads them,
// in the buckets that DDP makes (1 MiB, then 25 MiB, from the last parameter on), everything at low
// bits but vectors and the last matrix. Fails with the line that is wrong.
Expected<BucketTrace> read_bucket_trace(const std::string& source);

}  // namespace nf::cli
