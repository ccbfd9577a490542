// The size of the contribution of a rank in one step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/status.h"

namespace nf::torch_front {

// Bytes of one rank's contribution of these parameters along a route, including scales and
// statistics; the dense route counts as FP32. Fails with kBadConfig for an invalid route.
Expected<std::uint64_t> contribution_bytes(std::string_view route,
                                           std::span<const ModelParameter> parameters);

}  // namespace nf::torch_front
