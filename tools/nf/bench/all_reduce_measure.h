// Measures the time, the bytes sent and the error of all-reduces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"
#include "nf/bench/all_reduce_engine.h"
#include "nf/support/progress.h"

namespace nf::cli {

struct AllReduceSpeed {
  AllReduceCase bench_case;
  std::uint32_t ranks = 1;
  std::string_view dtype = {};  // type of the summed values; native all-reduces have their own
  // Per call, of the slowest rank.
  std::vector<double> seconds = {};
  // Sent by the busiest rank in one call; unknown for native all-reduces.
  std::optional<std::uint64_t> wire_bytes = {};
  // The error of the first call; empty if integers are summed.
  std::optional<double> vnmse = {};
  // Elements that differ between ranks, over all calls. If sums must be exact, also the elements
  // that differ from the exact sum of integers.
  std::uint64_t wrong = 0;
};

// Receives the results, on rank 0.
struct AllReduceSink {
  Progress& progress;
  std::function<void(const AllReduceSpeed&)> on_result;
};

// Runs one rank's part; all ranks call it with the same bench. `sink` is null except on rank 0.
// Creates an engine for every case before it measures the first, so that an unsupported case fails
// immediately.
Status run_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                            const EngineFactory& make_engine, AllReduceSink* sink);

}  // namespace nf::cli
