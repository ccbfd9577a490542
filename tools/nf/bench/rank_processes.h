// Runs ranks as processes, so that they are scheduled like the ranks of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

using RankWork = std::function<Status(std::uint32_t rank, std::span<double> samples)>;

// Forks `ranks` processes. Each calls `work` with space for `samples` samples. Returns the samples
// per rank. Each process has its own session, as under torchrun: Linux distributes CPU time among
// sessions first. Fails with the error of the lowest rank that failed or was killed.
Expected<std::vector<std::vector<double>>> run_rank_processes(std::uint32_t ranks,
                                                              std::size_t samples,
                                                              const RankWork& work);

}  // namespace nf::cli
