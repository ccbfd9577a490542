// One rank's schedule as a device takes it: what is exchanged at the same time, and what is added
// to what. All ranks have as many rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/schedule.h"
#include "neuron_fabric/codec.h"

namespace nf::cuda {

struct Arrival {
  Step step;
  std::size_t index = 0;  // of those that this rank receives for the chunk
};

// Messages that travel at the same time, of one tile.
struct Round {
  std::vector<Step> sends;
  std::vector<Arrival> receives;
};

struct DeviceRounds {
  DeviceRounds(Topology topology, const Schedule& schedule);

  std::vector<Round> rounds;  // reduce, then gather
  std::size_t reduce_rounds = 0;
  std::vector<std::vector<Origin>> added;  // by chunk: whose messages this rank adds, in order

  // How many ranks' values messages sum, in ascending order: those that travel, and those that grow
  // into them one message after the other, as `all_grow` or only those that cannot be added at
  // once.
  std::vector<std::uint32_t> contributions(bool all_grow) const;
};

// Whether one kernel can add messages of these: they have one layout, and are not too many.
bool are_added_at_once(const std::vector<Origin>& added);

}  // namespace nf::cuda
