// Ranks as processes, for what is measured to be scheduled as a job's ranks are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

using RankWork = std::function<Status(std::uint32_t rank, std::span<double> samples)>;

// Calls `work` in so many processes, with room for so many samples, and gives back by rank what
// they wrote there. Each has a session of its own, as torchrun gives its ranks: Linux shares cores
// out among sessions first. Fails as the first rank that does, or where one is killed.
Expected<std::vector<std::vector<double>>> run_rank_processes(std::uint32_t ranks,
                                                              std::size_t samples,
                                                              const RankWork& work);

}  // namespace nf::cli
