// The implementations that `nf bench all_reduce` and `nf bench reduce_scatter` measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"
#include "nf/bench/all_reduce_request.h"

namespace nf::cli {

struct BenchEngine {
  DataType type = DataType::kFloat32;
  bool is_exact = false;       // sums of small integers must be exact
  bool sums_integers = false;  // adds the bits of the values as 16-bit integers
  // Replaces the values, or those of this rank's shard, by their sum over all ranks.
  std::function<Status(std::uint64_t step, Values values)> run;
  std::function<std::uint64_t()> bytes_sent = {};  // so far; empty if unknown
  // Copy the values to and from other memory before and after run(). Not timed. After store(), all
  // ranks have the whole sum.
  std::function<Status(Values values)> load = [](Values /*values*/) { return Status(); };
  std::function<Status(Values values)> store = [](Values /*values*/) { return Status(); };
};

// Creates the engine of a case. Fails if the case is not supported.
using EngineFactory = std::function<Expected<BenchEngine>(const AllReduceCase& bench_case)>;

// The all-reduce or reduce-scatter of this library. Borrows the transport. Precondition: the case
// has a topology.
Expected<BenchEngine> make_fabric_engine(const AllReduceCase& bench_case,
                                         const AllReduceBench& bench, Transport& transport);

// The number of rows of the gradient, for powersgd: a power of two, as nearly square as possible.
std::size_t rows_of(std::size_t count);

}  // namespace nf::cli
