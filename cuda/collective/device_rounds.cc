#include "cuda/collective/device_rounds.h"

#include <algorithm>
#include <set>

#include "cuda/codec/device_codec.h"

namespace nf::cuda {
namespace {

// The rounds of `direct` do not depend on each other, so they are one round.
std::vector<Round> rounds_of(Topology topology, const Schedule& schedule, bool gather) {
  const StepKind send = gather ? StepKind::kGatherSend : StepKind::kReduceSend;
  const StepKind receive = gather ? StepKind::kGatherReceive : StepKind::kReduceReceive;
  std::uint32_t count = 0;  // the same on all ranks
  for (std::uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const ChunkPath path = chunk_path(topology, schedule.ranks, chunk);
    for (const Edge& edge : gather ? path.gather : path.reduce) {
      count = std::max(count, edge.round + 1);
    }
  }
  const bool is_one = topology == Topology::kDirect;
  std::vector<Round> rounds(is_one ? std::min(count, 1u) : count);
  std::vector<std::size_t> received(schedule.chunks, 0);
  for (const Step& step : schedule.steps) {
    if (step.kind != send && step.kind != receive) continue;
    Round& round = rounds[is_one ? 0 : step.round];
    if (step.kind == send) round.sends.push_back(step);
    if (step.kind == receive) round.receives.push_back({step, received[step.chunk]++});
  }
  return rounds;
}

}  // namespace

DeviceRounds::DeviceRounds(Collective collective, Topology topology, const Schedule& schedule,
                           bool merges)
    : ranks(schedule.ranks),
      rounds(rounds_of(topology, schedule, false)),
      reduce_rounds(rounds.size()),
      added(schedule.chunks) {
  const bool gathers = collective == Collective::kAllReduce;
  if (gathers) {
    for (Round& round : rounds_of(topology, schedule, true)) rounds.push_back(std::move(round));
  }
  for (std::uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const std::uint32_t owner = schedule.owners[chunk];
    if (gathers || (merges && owner == schedule.rank)) finished.push_back({chunk, owner});
    if (!gathers && !merges && owner == schedule.rank) kept.push_back(chunk);
  }
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kReduceReceive) continue;
    added[step.chunk].push_back({step.peer, step.contributions});
  }
}

std::vector<std::uint32_t> DeviceRounds::contributions(bool all_grow) const {
  std::set<std::uint32_t> found = {1, ranks};
  for (const Round& round : rounds) {
    for (const Step& step : round.sends) found.insert(step.contributions);
    for (const Arrival& arrival : round.receives) found.insert(arrival.step.contributions);
  }
  for (const std::vector<Origin>& origins : added) {
    if (!all_grow && can_fold(origins)) continue;
    std::uint32_t sum = 1;
    for (const Origin& origin : origins) found.insert(sum += origin.contributions);
  }
  return {found.begin(), found.end()};
}

bool can_fold(const std::vector<Origin>& added) {
  return added.size() <= DeviceCodec::kMaxFolded &&
         std::ranges::all_of(added, [&](const Origin& origin) {
           return origin.contributions == added.front().contributions;
         });
}

}  // namespace nf::cuda
