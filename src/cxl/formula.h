// A closed-form prediction of the cycle-level model (docs/cxl.md#the-closed-formula).
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

// The time of one request, in seconds.
struct ServiceTimes {
  double write = 0;  // between two writes on a busy device
  double read = 0;   // between two reads of results on a busy device
  double alone = 0;  // from a lone write to its answer
};

ServiceTimes service_times(const Timing& timing, Mode mode, std::uint32_t workers,
                           WriteOrder order);

}  // namespace nf::cxl
