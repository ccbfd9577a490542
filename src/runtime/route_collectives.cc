#include "runtime/route_collectives.h"

#include <chrono>
#include <utility>
#include <vector>

#include "runtime/host_probe.h"
#include "runtime/shared_all_reduce.h"

namespace nf {
namespace {

constexpr std::uint64_t kRecordedLines = 100'000;  // 20 MB as text

}  // namespace

RouteCollectives::RouteCollectives(Transport& transport, const Binding& binding,
                                   const AllReduceOptions& options, MemorySideReducer reducer)
    : transport_(transport),
      binding_(binding),
      options_(options),
      reducer_name_(std::move(reducer.name)),
      record_lines_(std::move(reducer.record_lines)),
      calls_(binding) {}

Expected<RouteCollectives::Route*> RouteCollectives::route(const std::string& spelling) {
  const auto known = routes_.find(spelling);
  if (known != routes_.end()) return &known->second;
  Expected<std::unique_ptr<AllReduce>> made = make(spelling);
  if (!made) return made.status();
  Route& route = routes_[spelling];
  route.all_reduce = std::move(*made);
  return &route;
}

Expected<std::unique_ptr<AllReduce>> RouteCollectives::make(const std::string& spelling) {
  AllReduceOptions options = options_;
  options.codec = spelling;
  if (reducer_name_.empty() || !SharedAllReduce::supports(spelling)) {
    return AllReduce::create(transport_, options);
  }
  const Expected<SharedReducer*> shared = shared_reducer();
  if (!shared) return shared.status();
  return SharedAllReduce::create(transport_, **shared, options);
}

Expected<SharedReducer*> RouteCollectives::shared_reducer() {
  if (shared_ == nullptr) {
    std::vector<std::size_t> counts{HostProbe::kShape.count};
    for (const ModelParameter& parameter : binding_.parameters()) counts.push_back(parameter.count);
    Expected<std::unique_ptr<SharedReducer>> joined = SharedReducer::join(
        {.name = reducer_name_,
         .rank = transport_.rank(),
         .ranks = transport_.ranks(),
         .capacity = SharedAllReduce::capacity(counts, transport_.ranks()),
         .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout)});
    if (!joined) return joined.status();
    shared_ = std::move(*joined);
  }
  return shared_.get();
}

Expected<AllReduce*> RouteCollectives::find(const std::string& spelling) {
  const Expected<Route*> found = route(spelling);
  if (!found) return found.status();
  return (*found)->all_reduce.get();
}

Status RouteCollectives::sum(BucketWork& work) {
  for (const RoutedSegments& routed : work.plan().low_bit) {
    NF_RETURN_IF_ERROR(sum_route(work, routed));
  }
  return {};
}

Status RouteCollectives::sum_route(BucketWork& work, const RoutedSegments& routed) {
  const Expected<Route*> found = route(routed.route);
  if (!found) return found.status();
  AllReduce& all_reduce = *(*found)->all_reduce;
  const AllReduceCall call = calls_.make(work, routed.segments);
  for (const Gradient& gradient : call.gradients) {
    if (!(*found)->steps.begin(gradient.parameter, call.step)) {
      all_reduce.forget(gradient.parameter);
    }
  }
  // Start here, not at create(): the values of a probe are no gradients.
  if (shared_ != nullptr && !record_lines_.empty()) {
    NF_RETURN_IF_ERROR(shared_->record(std::exchange(record_lines_, {}), kRecordedLines));
  }
  const Traffic before = all_reduce.traffic();
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(all_reduce.run(call));
  const std::chrono::duration<double> seconds = transport_.now() - begin;
  const std::vector<RegionShare> shares = shares_of(routed);
  add_traffic(work.traffic(), shares, before, all_reduce.traffic());
  add_seconds(work.traffic(), shares, seconds.count());
  return {};
}

void RouteCollectives::undo(std::uint64_t step) {
  for (const auto& [spelling, route] : routes_) {
    for (const std::uint64_t parameter : route.steps.parameters_of(step)) {
      route.all_reduce->undo(parameter);
    }
  }
}

MemoryByRoute RouteCollectives::memory(std::uint64_t step) const {
  MemoryByRoute memory;
  for (const auto& [spelling, route] : routes_) {
    memory[spelling] = route.steps.current(route.all_reduce->save_memory(), step);
  }
  return memory;
}

Status RouteCollectives::load_memory(const MemoryByRoute& memory, std::uint64_t step) {
  for (const auto& [spelling, entries] : memory) {
    const Expected<Route*> found = route(spelling);
    if (!found) return found.status();
    NF_RETURN_IF_ERROR((*found)->all_reduce->load_memory(entries));
    (*found)->steps.loaded(entries, step);
  }
  return {};
}

}  // namespace nf
