// Random traffic for testbenches of the pipeline, with hazards, idle cycles, a slow receiver and
// requests that must be rejected.
#pragma once

#include <cstdint>

#include "cxl/mode.h"
#include "cxl/trace.h"

namespace nf::cxl {

struct TrafficOptions {
  Mode mode = Mode::kGBinary;
  std::uint32_t workers = 8;
  std::uint32_t lines = 100;        // per worker
  std::uint32_t rounds = 1;         // generations
  std::uint32_t idle_percent = 30;  // cycles without a request
  std::uint32_t busy_percent = 30;  // cycles in which the receiver is not ready
  std::uint32_t fault_percent = 5;  // requests that must be rejected
  std::uint64_t seed = 1;
};

// The greatest number of lines of such a trace.
std::uint64_t max_lines(const TrafficOptions& options);

// Writes the lines of every worker once per round and reads the results. The writes of four lines
// at a time are shuffled, so that the same record is used again one, two and three cycles later.
// Results are read at once or at the end of the round.
Trace random_traffic(const TrafficOptions& options);

}  // namespace nf::cxl
