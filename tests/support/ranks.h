// The ranks of a job as threads of the test.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/inproc_transport.h"
#include "transport/faulty.h"

namespace nf::test {

// Runs work(transport) on one thread per rank and waits for all threads. A rank leaves the job when
// its work returns. `faults` apply to the messages that the rank `faulty` sends.
void on_all_ranks(std::uint32_t ranks, const std::function<void(Transport&)>& work,
                  const FaultPlan& faults = {}, std::uint32_t faulty = 0);

// One rank's parameters.
using Parameters = std::vector<std::vector<float>>;

std::vector<Gradient> gradients_of(Parameters& parameters);

// The parameters of all ranks after an all-reduce of `by_rank`, which must succeed on every rank.
std::vector<Parameters> all_reduce(const AllReduceOptions& options, std::vector<Parameters> by_rank,
                                   std::uint64_t step = 3);

}  // namespace nf::test
