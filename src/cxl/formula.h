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

}  // namespace nf::cxl
