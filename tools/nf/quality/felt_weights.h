// What an optimizer that divides by sqrt(v), such as Adam, feels of an error: its square over v,
// averaged over elements (docs/quality.md). v is the running mean of the squared mean gradient.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

// Weights of the squared error of a sum over `ranks`, one per element: their sum over all elements
// is the felt error. v is the only row of the .npy file, its elements in the order of the
// parameters. Elements of super-groups without any v have weight 0. Fails with the name of the file
// and the reason if it has too few elements, or negative or non-finite ones.
Expected<std::vector<float>> read_felt_weights(const std::string& path,
                                               std::span<const ParameterShape> parameters,
                                               std::uint32_t ranks);

}  // namespace nf::cli
