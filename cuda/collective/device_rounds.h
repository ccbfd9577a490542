// One rank's schedule in rounds: the messages of a round are exchanged at the same time. All ranks
// have the same number of rounds. A reduce-scatter has no gather rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/schedule.h"
#include "neuron_fabric/codec.h"
#include "neuron_fabric/collective.h"

namespace nf::cuda {

struct Arrival {
  Step step;
  std::size_t index = 0;  // among the messages that this rank receives for the chunk
};

// Messages of one tile that are exchanged at the same time.
struct Round {
  std::vector<Step> sends;
  std::vector<Arrival> receives;
};

// A chunk whose encoded sum this rank has at the end.
struct FinishedChunk {
  std::uint32_t chunk = 0;
  std::uint32_t owner = 0;
};

struct DeviceRounds {
  // `merges`: whether messages merge.
  DeviceRounds(Collective collective, Topology topology, const Schedule& schedule, bool merges);

  std::uint32_t ranks = 1;
  std::vector<Round> rounds;  // reduce, then gather
  std::size_t reduce_rounds = 0;
  std::vector<std::vector<Origin>> added;  // by chunk: origins of the messages to add, in order
  // All chunks in an all-reduce; in a reduce-scatter, this rank's own chunk if messages merge.
  std::vector<FinishedChunk> finished;
  // The chunks whose sum is not encoded but added to this rank's values: its own chunk in a
  // reduce-scatter, unless messages merge.
  std::vector<std::uint32_t> kept;

  // The numbers of contributions that messages have, ascending: of messages that are sent, of
  // partial sums built one message at a time, and of finished sums. `all_grow`: all sums are built
  // that way, otherwise only those for which can_fold() is false.
  std::vector<std::uint32_t> contributions(bool all_grow) const;
};

// Whether one fold_encode() can add these messages: all of one layout, and at most kMaxFolded.
bool can_fold(const std::vector<Origin>& added);

}  // namespace nf::cuda
