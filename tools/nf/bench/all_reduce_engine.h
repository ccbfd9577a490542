// What `nf bench all_reduce` measures: something that replaces values by their sum over all ranks.
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
  bool is_exact = false;       // where no addition rounds
  bool sums_integers = false;  // whatever the type says
  std::function<Status(std::uint64_t step, Values values)> run;
  std::function<std::uint64_t()> bytes_sent = {};  // so far; empty where nobody knows
  // Before and after run(), and not timed: where values are summed in other memory.
  std::function<Status(Values values)> load = [](Values /*values*/) { return Status(); };
  std::function<Status(Values values)> store = [](Values /*values*/) { return Status(); };
};

// What a transport sums a case by, ours or its own. Fails where a case cannot be.
using EngineMaker = std::function<Expected<BenchEngine>(const AllReduceCase& subject)>;

// Our all-reduce, which borrows the transport. Precondition: the case has a topology.
Expected<BenchEngine> make_our_engine(const AllReduceCase& subject, const AllReduceBench& bench,
                                      Transport& transport);

// powersgd wants a matrix: the most nearly square one with a power of two of rows.
std::size_t rows_of(std::size_t count);

}  // namespace nf::cli
