#include "cuda/collective/route_memories.h"

#include <fmt/format.h>

#include <utility>

#include "collective/low_rank_all_reduce.h"
#include "cuda/collective/low_rank_memory.h"
#include "cuda/collective/residual_memory.h"

namespace nf::cuda {

Expected<RouteMemory*> RouteMemories::find(const std::string& route) {
  if (!has_route_memory(route)) return nullptr;
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
  if (!is_low_rank(route)) {
    return std::unique_ptr<RouteMemory>(std::make_unique<ResidualMemory>(allocator_, home_));
  }
  const Expected<std::uint32_t> terms = LowRankAllReduce::terms_of(route);
  if (!terms) return terms.status();
  return std::unique_ptr<RouteMemory>(std::make_unique<LowRankMemory>(*terms, allocator_, home_));
}

void RouteMemories::begin(const std::string& route, const AllReduceCall& call) {
  const auto found = routes_.find(route);
  if (found == routes_.end()) return;
  for (const Gradient& gradient : call.gradients) {
    if (!found->second.steps.begin(gradient.parameter, call.step)) {
      found->second.states->forget(gradient.parameter);
    }
  }
}

Status RouteMemories::wait_for_uses() const {
  for (const auto& [spelling, route] : routes_) {
    NF_RETURN_IF_ERROR(route.states->wait_for_uses());
  }
  return {};
}

Expected<MemoryByRoute> RouteMemories::memory(std::uint64_t step) const {
  MemoryByRoute memory;
  for (const auto& [spelling, route] : routes_) {
    Expected<std::vector<MemoryEntry>> entries = route.states->save_memory();
    if (!entries) return entries.status();
    memory[spelling] = route.steps.current(std::move(*entries), step);
  }
  return memory;
}

Status RouteMemories::load(const MemoryByRoute& memory, std::uint64_t step) {
  for (const auto& [spelling, entries] : memory) {
    const Expected<RouteMemory*> states = find(spelling);
    if (!states) return states.status();
    if (*states == nullptr) {
      return {
          ErrorCode::kUnsupported,
          fmt::format("cannot load the memory of route {}: it keeps none on a device", spelling)};
    }
    NF_RETURN_IF_ERROR((*states)->load_memory(entries));
    routes_.at(spelling).steps.loaded(entries, step);
  }
  return {};
}

std::size_t RouteMemories::size() const {
  std::size_t bytes = 0;
  for (const auto& [spelling, route] : routes_) bytes += route.states->size();
  return bytes;
}

}  // namespace nf::cuda
