// What a rank sends of its own in one step, before any sum comes back.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/status.h"

namespace nf::torch_front {

// Bytes of one rank's contribution of these parameters along a route, scales and statistics
// included; the dense route counts as FP32. Fails with kBadConfig where there is no such route.
Expected<std::uint64_t> contribution_bytes(std::string_view route,
                                           std::span<const ModelParameter> parameters);

}  // namespace nf::torch_front
