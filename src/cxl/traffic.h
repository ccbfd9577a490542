// Random traffic for the pipeline: what a test bench wants to see, hazards, idle cycles, a slow
// receiver and refusals among it.
#pragma once

#include <cstdint>

#include "cxl/mode.h"
#include "cxl/trace.h"

namespace nf::cxl {

struct TrafficOptions {
  Mode mode = Mode::kGBinary;
  std::uint32_t workers = 8;
  std::uint32_t lines = 100;        // of every worker
  std::uint32_t rounds = 1;         // generations
  std::uint32_t idle_percent = 30;  // of the cycles, in which nothing is offered
  std::uint32_t busy_percent = 30;  // of the cycles, in which the receiver is not ready
  std::uint32_t fault_percent = 5;  // of the requests, that must be refused
  std::uint64_t seed = 1;
};

// Every worker's lines once a round, and the results. Lines come in groups of four whose writes are
// mixed, so that the same record is wanted again one, two and three cycles later; results are read
// at once, or at the end of the round.
Trace random_traffic(const TrafficOptions& options);

}  // namespace nf::cxl
