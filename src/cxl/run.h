// Runs one reduction through the cycle-level model and compares it with a baseline, the same
// requests with a datapath that takes no time, and with the closed formula.
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
  // Runs of the model and of the baseline, each with refreshes at different times; cycles are
  // means.
  unsigned repeats = 4;
};

struct RunResult {
  double cycles = 0;
  double baseline_cycles = 0;
  std::uint64_t requests = 0;    // of one run
  std::uint64_t dram_bytes = 0;  // of one run, read and written
  Prediction formula;
  bool correct = false;           // every answer matches the codec
  double seconds = 0;             // CPU time of all runs
  std::uint64_t simulated = 0;    // requests of all runs
  double functional_seconds = 0;  // CPU time of the functional model for the requests of one run

  double exposed_overhead() const { return cycles / baseline_cycles - 1; }
  // Deviation of the exposed overhead from the formula: relative if the formula predicts at least
  // 0.1 %, otherwise the absolute difference.
  double deviation() const;
};

Expected<RunResult> run(const RunOptions& options);

}  // namespace nf::cxl
