// A trace of the buckets of a training job, the input of `nf replay`.
//
// JSON, one object per line. The first describes the job, each further one a bucket:
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
  std::uint64_t low_bit_values = 0;  // those in regions that can be sent at low bits

  std::uint64_t bytes() const { return 4 * values; }
};

struct BucketTrace {
  std::string name;
  std::uint32_t workers = 0;  // 0 if the trace does not have it
  std::vector<BucketTraffic> buckets;
};

inline constexpr std::uint64_t kMaxBucketValues = std::uint64_t{1} << 36;

// Reads a trace from a file, or generates one step from `shapes:FILE`, where FILE is a shapes file
// of `nf plan`: buckets as in DDP (last parameter first, 1 MiB, then 25 MiB), all parameters at low
// bits except vectors and the last matrix. Errors name the line.
Expected<BucketTrace> read_bucket_trace(const std::string& source);

}  // namespace nf::cli
