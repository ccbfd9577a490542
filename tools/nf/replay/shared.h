// Measures all-reduces with the shared-memory reducer on this host under the conditions of a job:
// one process per rank, which computes between two all-reduces, while the dense part of the bucket
// is summed in parallel.
#pragma once

#include <cstdint>
#include <string>

#include "nf/replay/bucket_trace.h"
#include "nf/replay/model.h"

namespace nf::cli {

struct SharedSum {
  double whole = 0;   // seconds: encode, reduce, decode
  double reduce = 0;  // the part from the end of encode to the beginning of decode
};

// Returns the medians of `repeat` all-reduces. Ranks enter an all-reduce at different times and
// wait for each other, so its time is that of the rank that entered last. Precondition: at least 2
// workers and one low-bit value.
Expected<SharedSum> measure_shared_sum(const std::string& codec, std::uint32_t workers,
                                       const BucketTraffic& bucket, int repeat);

// A linear fit to two bucket sizes, with the trace's share of low-bit values. Zero if there is
// nothing to sum.
Expected<SharedTimes> measure_shared_times(const std::string& codec, std::uint32_t workers,
                                           const BucketTrace& trace);

}  // namespace nf::cli
