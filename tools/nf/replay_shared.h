// What a shared-memory reducer of this machine takes, measured.
#pragma once

#include <cstdint>
#include <string>

#include "nf/replay_model.h"

namespace nf::cli {

// The median seconds of a sum of `values` among so many threads, each a rank.
Expected<double> measure_shared_sum(const std::string& codec, std::uint32_t workers,
                                    std::uint64_t values, int repeat);

// Fitted to two sizes.
Expected<SharedTimes> measure_shared_times(const std::string& codec, std::uint32_t workers);

}  // namespace nf::cli
