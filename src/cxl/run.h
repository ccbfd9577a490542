// One reduction through the cycle-level model, beside the same requests with a datapath that takes
// no time, and beside the closed formula.
#pragma once

#include <cstdint>

#include "cxl/formula.h"
#include "cxl/model.h"
#include "neuron_fabric/status.h"

namespace nf::cxl {

struct RunOptions {
  WorkloadOptions workload;
  HostOptions host;
  Timing timing;
  // Runs of each, between which refreshes fall otherwise; cycles are their means.
  unsigned repeats = 4;
};

struct RunResult {
  double cycles = 0;
  double baseline_cycles = 0;
  std::uint64_t requests = 0;    // of one run
  std::uint64_t dram_bytes = 0;  // of one run, both ways
  Prediction formula;
  bool correct = false;           // every answer, by the codec
  double seconds = 0;             // of one core, that the simulation took, both together
  std::uint64_t simulated = 0;    // requests, in all runs
  double functional_seconds = 0;  // that the functional model took for the requests of one run

  double exposed_overhead() const { return cycles / baseline_cycles - 1; }
  // Of the exposed overhead from the formula's: relative where that is 0.1 % and more, else the
  // difference itself.
  double deviation() const;
};

Expected<RunResult> run(const RunOptions& options);

}  // namespace nf::cxl
