// Checks of what an all-reduce is told to remember, which comes from a file, and of the loss scale
// that memory is kept free of.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

// The status that says what is wrong with the memory of a parameter.
Status bad_memory(std::uint64_t parameter, std::string_view problem);

// By parameter, then by what it is.
void sort_memory(std::vector<Remembered>& memory);

// That everything is one of `known`, is there once for a parameter, and is finite.
Status check_memory(std::span<const Remembered> memory, std::span<const std::string_view> known);

// That dividing by it and multiplying by it are both possible.
Status check_loss_scale(float loss_scale);

}  // namespace nf
