// What the cycle-level model should come to, in closed form (docs/cxl.md#the-closed-formula).
#pragma once

#include "cxl/model.h"
#include "cxl/timing.h"
#include "cxl/workload.h"

namespace nf::cxl {

struct Prediction {
  double cycles = 0;
  double baseline_cycles = 0;  // with a datapath that takes no time
  bool is_latency_bound = false;

  double overhead() const { return cycles / baseline_cycles - 1; }
};

Prediction predict(const Timing& timing, const HostOptions& host, const Workload& workload);

// What one request takes of the device while it is busy, and alone, in seconds.
struct ServiceTimes {
  double write = 0;  // between two writes
  double read = 0;   // between two reads of results
  double alone = 0;  // of a write, until its answer
};

ServiceTimes service_times(const Timing& timing, Mode mode, std::uint32_t workers,
                           WriteOrder order);

}  // namespace nf::cxl
