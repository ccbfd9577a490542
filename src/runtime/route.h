// The routes that a profile may name.
#pragma once

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

// If `spelling` is neither a codec nor powersgd:R, fails with kBadConfig and names the nearest
// known word.
Status check_route(std::string_view spelling);

// Whether the route keeps memory from step to step. Fails like check_route().
Expected<bool> remembers(std::string_view spelling);

}  // namespace nf
