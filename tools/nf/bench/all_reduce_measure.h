// How long an all-reduce takes, how much it sends, and how far its result is from the exact sum.
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
  AllReduceCase subject;
  std::uint32_t ranks = 1;
  std::string_view dtype = {};  // of what was summed; transports' own sums have theirs
  // By call, of the slowest rank.
  std::vector<double> seconds = {};
  // By the busiest rank, in one call; transports' own sums do not tell.
  std::optional<std::uint64_t> wire_bytes = {};
  // Of the first call's result; none of integers.
  std::optional<double> vnmse = {};
  // Elements that differ between ranks, over all calls; where sums must be exact also those that
  // differ from the exact sum of whole numbers.
  std::uint64_t wrong = 0;
};

// Who reads the results: on rank 0.
struct AllReduceReader {
  Progress& progress;
  std::function<void(const AllReduceSpeed&)> take;
};

// One rank's part; all ranks call it with the same bench. `reader` is null but on rank 0. An engine
// for every case is made before the first is measured, so that one that cannot be fails at once.
Status run_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                            const EngineMaker& make_engine, AllReduceReader* reader);

}  // namespace nf::cli
