// What a Fabric needs to go on elsewhere with the same decisions, as JSON. The same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"
#include "runtime/statistics.h"

namespace nf {

struct FabricState {
  std::uint64_t step = 0;  // the next one
  std::string admission;
  double dense_correction = 1;
  double low_bit_correction = 1;
  std::vector<StepStatistics> to_observe;  // without times
};

std::string print(const FabricState& state);
// Fails with kInvalidArgument on what print() could not have written for so many regions.
Expected<FabricState> parse_fabric_state(std::string_view text, std::size_t regions);

}  // namespace nf
