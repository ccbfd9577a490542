// Work that falls into independent parts, on all cores of the machine.
#pragma once

#include <cstddef>
#include <functional>

#include "neuron_fabric/status.h"

namespace nf::cli {

// Calls work(0), work(1), ... work(count - 1), in any order and from several threads; this one is
// among them. After a failure no further part starts, and the failure of the first part is
// returned.
Status for_each_part(std::size_t count, const std::function<Status(std::size_t)>& work);

}  // namespace nf::cli
