// What one bucket costs on its way through a reducer, predicted (docs/cxl.md#replay).
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
std::string_view to_string(ReplayReducer reducer);

struct ReplayLink {
  double gbps = 100;      // of every worker, each way
  double latency_us = 5;  // of a transfer
};

// Seconds a value, of one thread of this machine, for sums of so many workers.
struct CodecTimes {
  double encode = 0;
  double hop = 0;  // decode_add_encode
  double merge = 0;
  double decode = 0;
};
Expected<CodecTimes> measure_codec_times(const std::string& codec, std::uint32_t workers);

// A time that grows with the values of a sum.
struct TimeLine {
  double seconds = 0;  // of next to nothing
  double seconds_per_value = 0;

  double at(double values) const { return seconds + values * seconds_per_value; }
};

// What a sum at a shared-memory reducer takes.
struct SharedTimes {
  TimeLine whole = {};   // encode, reduce, decode
  TimeLine reduce = {};  // of it
};

struct ReplayCase {
  ReplayReducer reducer = ReplayReducer::kRing;
  std::string codec = "g_binary";
  std::uint32_t workers = 8;
  ReplayLink link;
  CodecTimes times = {};
  SharedTimes shared = {};                           // of kShared
  cxl::Timing timing = {};                           // of kCxl
  cxl::WriteOrder order = cxl::WriteOrder::kInStep;  // of kCxl
  ReducerCapacity capacity = {};                     // of kCxl
};

struct ReplayCost {
  double fp32_us = 0;  // the whole bucket by a dense ring over the link
  double bf16_us = 0;
  double low_bit_us = 0;  // low bits by the reducer, the rest of the bucket dense
  double reduce_us = 0;   // of it, between the last encode and the first decode
  bool pays = false;
  std::string reason = {};
};

// Fails where the codec cannot have so many ranks.
Expected<ReplayCost> cost_of(const ReplayCase& one, const BucketTraffic& bucket);

// What a device of this timing takes from `workers`, as profiles have it, wherever they write.
ReducerCapacity capacity_of(const cxl::Timing& timing, const std::string& codec,
                            std::uint32_t workers);

}  // namespace nf::cli
