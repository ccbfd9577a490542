// The state of a Fabric for a checkpoint, as JSON. The same on every rank except for `pending`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"
#include "runtime/step_statistics.h"

namespace nf {

// Observations of this rank since its last step began; they belong to the next step.
struct Pending {
  double loss = 0;  // sum of the observed losses
  std::uint32_t losses = 0;
  bool capacity_breach = false;
};

struct FabricState {
  std::uint64_t step = 0;   // the next one
  std::uint32_t ranks = 0;  // 0 in older states, like the topology
  std::optional<Topology> topology;
  std::string admission;
  double dense_correction = 1;
  double low_bit_correction = 1;
  std::vector<StepStatistics> to_observe;  // without times
  Pending pending;                         // older states have none
};

std::string print(const FabricState& state);
// If print() could not have written the text for this number of regions, fails with
// kInvalidArgument and names the field. A whole number is at most 2^53.
Expected<FabricState> parse_fabric_state(std::string_view text, std::size_t regions);

}  // namespace nf
