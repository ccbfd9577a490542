// Register accesses at the same time as requests: none is lost, and each happens between requests.
#pragma once

#include <cstdint>
#include <vector>

#include "device.h"
#include "random_traffic.h"

namespace nf::rtl {

// Plays the round on enabled regions, with reads of registers, clears of regions and clears of
// errors. Data, errors and registers must be those of the reference in the order in which requests
// and accesses were taken. Prints the first difference.
bool play_with_accesses(Device& device, const Limits& limits, const Round& round,
                        std::mt19937_64& random);

}  // namespace nf::rtl
