// What a profile may call a route.
#pragma once

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

// Fails with kBadConfig, naming the nearest known word, where `spelling` is neither a codec nor
// powersgd:R.
Status check_route(std::string_view spelling);

// Whether ranks keep what a step has lost of a gradient for the next one. Fails as check_route().
Expected<bool> remembers(std::string_view spelling);

}  // namespace nf
