// What sums at a shared-memory reducer take on this machine, measured under the conditions of a
// job: a process a rank, which computes between two sums, and the dense part of the bucket on its
// way at the same time.
#pragma once

#include <cstdint>
#include <string>

#include "nf/replay/bucket_trace.h"
#include "nf/replay/model.h"

namespace nf::cli {

struct SharedSum {
  double whole = 0;   // seconds: encode, reduce, decode
  double reduce = 0;  // of them, from the end of encode to the beginning of decode
};

// Ranks come to a sum at different times, and whoever comes first waits: a sum's time is that of
// the rank that waited least. The medians of `repeat` sums. Precondition: 2 workers or more, and
// something in the bucket at low bits.
Expected<SharedSum> measure_shared_sum(const std::string& codec, std::uint32_t workers,
                                       const BucketTraffic& bucket, int repeat);

// Fitted to two sizes, with low bits as large a share of a bucket as in all of the trace. Zero
// where there is nothing to sum.
Expected<SharedTimes> measure_shared_times(const std::string& codec, std::uint32_t workers,
                                           const BucketTrace& trace);

}  // namespace nf::cli
