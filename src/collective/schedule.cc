#include "collective/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

namespace nf {
namespace {

bool is_gather(StepKind kind) {
  return kind == StepKind::kGatherReceive || kind == StepKind::kGatherSend;
}

bool is_receive(StepKind kind) {
  return kind == StepKind::kReduceReceive || kind == StepKind::kGatherReceive;
}

// Within a round sends come first: a rank sends only what it has received in an earlier round.
bool comes_before(const Step& a, const Step& b) {
  const auto place = [](const Step& step) {
    return std::tuple(is_gather(step.kind), step.round, is_receive(step.kind), step.chunk);
  };
  return place(a) < place(b);
}

Step step_of(StepKind kind, const Edge& edge, std::uint32_t chunk) {
  return {.kind = kind,
          .round = edge.round,
          .chunk = chunk,
          .peer = is_receive(kind) ? edge.from : edge.to,
          .contributions = edge.contributions};
}

// Calls add(rank, step) for both ends of every edge of the path.
template <typename Add>
void for_each_step(const ChunkPath& path, std::uint32_t chunk, Add add) {
  for (const Edge& edge : path.reduce) {
    add(edge.from, step_of(StepKind::kReduceSend, edge, chunk));
    add(edge.to, step_of(StepKind::kReduceReceive, edge, chunk));
  }
  for (const Edge& edge : path.gather) {
    add(edge.from, step_of(StepKind::kGatherSend, edge, chunk));
    add(edge.to, step_of(StepKind::kGatherReceive, edge, chunk));
  }
}

template <typename Predicate>
Schedule part_of(const Schedule& schedule, Predicate belongs) {
  Schedule part = schedule;
  std::erase_if(part.steps, [&](const Step& step) { return !belongs(step.kind); });
  return part;
}

std::string_view verb(StepKind kind) {
  switch (kind) {
    case StepKind::kReduceSend: return "send";
    case StepKind::kReduceReceive: return "add";
    case StepKind::kGatherSend: return "share";
    case StepKind::kGatherReceive: return "store";
  }
  return "";
}

}  // namespace

Schedule make_schedule(Topology topology, std::uint32_t ranks, std::uint32_t rank) {
  Schedule schedule;
  schedule.ranks = ranks;
  schedule.rank = rank;
  schedule.chunks = chunk_count(topology, ranks);
  for (std::uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const ChunkPath path = chunk_path(topology, ranks, chunk);
    schedule.owners.push_back(path.owner);
    for_each_step(path, chunk, [&](std::uint32_t of, const Step& step) {
      if (of == rank) schedule.steps.push_back(step);
    });
  }
  std::sort(schedule.steps.begin(), schedule.steps.end(), comes_before);
  return schedule;
}

std::vector<Schedule> make_schedules(Topology topology, std::uint32_t ranks) {
  const std::uint32_t chunks = chunk_count(topology, ranks);
  std::vector<Schedule> schedules(ranks);
  std::vector<std::uint32_t> owners;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const ChunkPath path = chunk_path(topology, ranks, chunk);
    owners.push_back(path.owner);
    for_each_step(path, chunk,
                  [&](std::uint32_t of, const Step& step) { schedules[of].steps.push_back(step); });
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Schedule& schedule = schedules[rank];
    schedule.ranks = ranks;
    schedule.rank = rank;
    schedule.chunks = chunks;
    schedule.owners = owners;
    std::sort(schedule.steps.begin(), schedule.steps.end(), comes_before);
  }
  return schedules;
}

Schedule reduce_part(const Schedule& schedule) {
  return part_of(schedule, [](StepKind kind) { return !is_gather(kind); });
}

Schedule gather_part(const Schedule& schedule) { return part_of(schedule, is_gather); }

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) {
    const std::string peer = fmt::format("{} {}", is_receive(step.kind) ? "from" : "to", step.peer);
    fmt::format_to(std::back_inserter(text), "round {}  {:<5}  chunk {} {:<6}  sum of {}\n",
                   step.round, verb(step.kind), step.chunk, peer, step.contributions);
  }
  return text;
}

}  // namespace nf
