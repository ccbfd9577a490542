// All ranks of a job as threads of the test.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/inproc_transport.h"
#include "transport/faulty.h"

namespace nf::test {

// Calls work(transport) on a thread a rank and waits for all of them. A rank is gone once its work
// is done. The faults are those of what
// `faulty` sends.
void on_all_ranks(std::uint32_t ranks, const std::function<void(Transport&)>& work,
                  const FaultPlan& faults = {}, std::uint32_t faulty = 0);

// One rank's parameters.
using Parameters = std::vector<std::vector<float>>;

std::vector<Gradient> gradients_of(Parameters& parameters);

// What all ranks hold after an all-reduce of `by_rank`; every rank must succeed.
std::vector<Parameters> all_reduce(const AllReduceOptions& options, std::vector<Parameters> by_rank,
                                   std::uint64_t step = 3);

}  // namespace nf::test
