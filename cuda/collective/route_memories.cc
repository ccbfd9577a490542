#include "cuda/collective/route_memories.h"

#include <fmt/format.h>

#include <utility>

#include "collective/low_rank_all_reduce.h"
#include "cuda/collective/device_collective.h"
#include "cuda/collective/low_rank_memory.h"
#include "cuda/collective/residual_memory.h"

namespace nf::cuda {

Expected<RouteMemory*> RouteMemories::find(const std::string& route) {
  if (!remembers(route)) return nullptr;
  if (const auto found = routes_.find(route); found != routes_.end()) {
    return found->second.states.get();
  }
  Expected<std::unique_ptr<RouteMemory>> made = make(route);
  if (!made) return made.status();
  RouteMemory* states = made->get();
  routes_[route].states = std::move(*made);
  return states;
}

Expected<std::unique_ptr<RouteMemory>> RouteMemories::make(const std::string& route) const {
  const Expected<CodecSpec> spec = CodecSpec::parse(route);
  if (!spec) return spec.status();
  if (spec->name != LowRankAllReduce::kName) {
    return std::unique_ptr<RouteMemory>(std::make_unique<ResidualMemory>(allocator_, home_));
  }
  const Expected<std::uint32_t> terms = LowRankAllReduce::terms_of(route);
  if (!terms) return terms.status();
  return std::unique_ptr<RouteMemory>(std::make_unique<LowRankMemory>(*terms, allocator_, home_));
}

void RouteMemories::begin(const std::string& route, std::uint64_t parameter, std::uint64_t step) {
  const auto found = routes_.find(route);
  if (found == routes_.end()) return;
  std::uint64_t& last_step = found->second.last_step[parameter];
  if (last_step + 1 != step) found->second.states->forget(parameter);
  last_step = step;
}

Status RouteMemories::join_home_stream() const {
  for (const auto& [spelling, route] : routes_)
    NF_RETURN_IF_ERROR(route.states->join_home_stream());
  return {};
}

Expected<std::vector<Fabric::Memory>> RouteMemories::memory(std::uint64_t step) const {
  std::vector<Fabric::Memory> memory;
  for (const auto& [spelling, route] : routes_) {
    Expected<std::vector<Remembered>> remembered = route.states->remembered();
    if (!remembered) return remembered.status();
    for (Remembered& item : *remembered) {
      const auto last = route.last_step.find(item.parameter);
      if (last == route.last_step.end() || last->second + 1 < step) continue;
      memory.push_back({.route = spelling, .remembered = std::move(item)});
    }
  }
  return memory;
}

Status RouteMemories::load(std::span<const Fabric::Memory> memory, std::uint64_t step) {
  std::map<std::string, std::vector<Remembered>> by_route;
  for (const Fabric::Memory& item : memory) by_route[item.route].push_back(item.remembered);
  for (const auto& [spelling, remembered] : by_route) {
    const Expected<RouteMemory*> states = find(spelling);
    if (!states) return states.status();
    if (*states == nullptr) {
      return {ErrorCode::kUnsupported,
              fmt::format("what {} kept cannot be loaded: on a device it keeps nothing from step "
                          "to step",
                          spelling)};
    }
    NF_RETURN_IF_ERROR((*states)->remember(remembered));
    for (const Remembered& item : remembered) {
      routes_.at(spelling).last_step[item.parameter] = step - 1;
    }
  }
  return {};
}

std::size_t RouteMemories::size() const {
  std::size_t bytes = 0;
  for (const auto& [spelling, route] : routes_) bytes += route.states->size();
  return bytes;
}

}  // namespace nf::cuda
