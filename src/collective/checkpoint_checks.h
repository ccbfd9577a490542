// Checks of route memory that is loaded from a checkpoint, and of the loss scale that it is divided
// by.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

// An error about the memory of a parameter.
Status bad_memory(std::uint64_t parameter, std::string_view problem);

// By parameter, then by kind.
void sort_memory(std::vector<MemoryEntry>& memory);

// Checks that every entry is of one of `kinds`, occurs once per parameter, and is finite.
Status check_memory(std::span<const MemoryEntry> memory, std::span<const std::string_view> kinds);

// Checks that values can be multiplied and divided by it.
Status check_loss_scale(float loss_scale);

}  // namespace nf
