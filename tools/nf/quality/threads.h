// Runs independent parts of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

#include "neuron_fabric/status.h"

namespace nf::cli {

// Calls work(0), work(1), ... work(count - 1) in any order from several threads, including this
// one. After a failure, no further part is started. Returns the failure of the lowest part.
Status for_each_part(std::size_t count, const std::function<Status(std::size_t)>& work);

}  // namespace nf::cli
