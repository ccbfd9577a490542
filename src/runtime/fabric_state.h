// What a Fabric needs to go on elsewhere with the same decisions, as JSON. The same on every rank,
// but for what is pending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"
#include "runtime/step_statistics.h"

namespace nf {

// What this rank has observed since its last step began, to go with the next one.
struct Pending {
  double loss = 0;  // sum of those observed
  std::uint32_t losses = 0;
  bool capacity_breach = false;
};

struct FabricState {
  std::uint64_t step = 0;  // the next one
  std::string admission;
  double dense_correction = 1;
  double low_bit_correction = 1;
  std::vector<StepStatistics> to_observe;  // without times
  Pending pending;                         // older states have none
};

std::string print(const FabricState& state);
// Fails with kInvalidArgument, naming the field, on what print() could not have written for so many
// regions. A whole number is at most 2^53.
Expected<FabricState> parse_fabric_state(std::string_view text, std::size_t regions);

}  // namespace nf
