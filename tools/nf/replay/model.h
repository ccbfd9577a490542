// Predicts the time of one bucket with a reducer (docs/cxl.md#replay).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxl/timing.h"
#include "cxl/workload.h"
#include "neuron_fabric/profile.h"
#include "neuron_fabric/status.h"
#include "nf/replay/bucket_trace.h"

namespace nf::cli {

enum class ReplayReducer { kRing, kEndpoint, kCxl, kShared };
inline constexpr ReplayReducer kReplayReducers[] = {ReplayReducer::kRing, ReplayReducer::kEndpoint,
                                                    ReplayReducer::kCxl, ReplayReducer::kShared};
std::string_view to_string(ReplayReducer reducer);

struct ReplayLink {
  double gbps = 100;      // per worker and direction
  double latency_us = 5;  // per transfer
};

// Seconds per value of one thread on this host, for sums of a given number of workers.
struct CodecTimes {
  double encode = 0;
  double hop = 0;  // decode_add_encode
  double merge = 0;
  double decode = 0;
};
Expected<CodecTimes> measure_codec_times(const std::string& codec, std::uint32_t workers);

// A time that is linear in the number of values.
struct TimeLine {
  double seconds = 0;  // fixed part
  double seconds_per_value = 0;

  double at(double values) const { return seconds + values * seconds_per_value; }
};

// The time of an all-reduce with the shared-memory reducer.
struct SharedTimes {
  TimeLine whole = {};   // encode, reduce, decode
  TimeLine reduce = {};  // the reduce part
};

struct ReplayCase {
  ReplayReducer reducer = ReplayReducer::kRing;
  std::string codec = "g_binary";
  std::uint32_t workers = 8;
  ReplayLink link;
  CodecTimes times = {};
  SharedTimes shared = {};                           // for kShared
  cxl::Timing timing = {};                           // for kCxl
  cxl::WriteOrder order = cxl::WriteOrder::kInStep;  // for kCxl
  ReducerCapacity capacity = {};                     // for kCxl
};

struct ReplayCost {
  double fp32_us = 0;  // the whole bucket with a dense ring over the link
  double bf16_us = 0;
  double low_bit_us = 0;  // low-bit values with the reducer, the rest of the bucket dense
  double reduce_us = 0;   // the part of it between the last encode and the first decode
  bool pays = false;
  std::string reason = {};
};

// Fails if the codec does not support so many ranks.
Expected<ReplayCost> cost_of(const ReplayCase& one, const BucketTraffic& bucket);

// The capacity of a device, as stored in profiles. Assumes cxl::WriteOrder::kApart, the slower
// order.
ReducerCapacity capacity_of(const cxl::Timing& timing, const std::string& codec,
                            std::uint32_t workers);

}  // namespace nf::cli
