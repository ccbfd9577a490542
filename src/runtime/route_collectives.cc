#include "runtime/route_collectives.h"

#include <chrono>
#include <utility>
#include <vector>

#include "collective/host_groups.h"
#include "neuron_fabric/reduce_scatter.h"
#include "runtime/host_probe.h"
#include "runtime/shared_all_reduce.h"

namespace nf {
namespace {

constexpr std::uint64_t kRecordedLines = 100'000;  // 20 MB as text

}  // namespace

RouteCollectives::RouteCollectives(Transport& transport, const Binding& binding,
                                   Collective collective, const AllReduceOptions& options,
                                   MemorySideReducer reducer)
    : transport_(transport),
      binding_(binding),
      collective_(collective),
      options_(options),
      reducer_name_(std::move(reducer.name)),
      record_lines_(std::move(reducer.record_lines)),
      calls_(binding, positions_of(options)) {}

Status RouteCollectives::Route::run(const AllReduceCall& call,
                                    std::span<const std::size_t> shards) {
  return shards.empty() ? collective->run(call) : scatter->run_shards(call, shards);
}

Expected<RouteCollectives::Route*> RouteCollectives::route(const std::string& spelling) {
  const auto known = routes_.find(spelling);
  if (known != routes_.end()) return &known->second;
  Route made;
  NF_RETURN_IF_ERROR(make(spelling, made));
  return &(routes_[spelling] = std::move(made));
}

Status RouteCollectives::make(const std::string& spelling, Route& route) {
  AllReduceOptions options = options_;
  options.codec = spelling;
  if (collective_ == Collective::kReduceScatter) {
    if (!reducer_name_.empty()) {
      return {ErrorCode::kBadConfig, "the memory-side reducer has no reduce_scatter; omit it"};
    }
    NF_RETURN_IF_ERROR(ReduceScatter::check(options));
    Expected<std::unique_ptr<CodecAllReduce>> made =
        CodecAllReduce::create(transport_, options, collective_);
    if (!made) return made.status();
    route.scatter = made->get();
    route.collective = std::move(*made);
    return {};
  }
  Expected<std::unique_ptr<AllReduce>> made = Status(ErrorCode::kUnsupported, "");
  if (reducer_name_.empty() || !SharedAllReduce::supports(spelling)) {
    made = AllReduce::create(transport_, options);
  } else {
    const Expected<SharedReducer*> shared = shared_reducer();
    if (!shared) return shared.status();
    made = SharedAllReduce::create(transport_, **shared, options);
  }
  if (!made) return made.status();
  route.collective = std::move(*made);
  return {};
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

Status RouteCollectives::run(const std::string& spelling, const AllReduceCall& call,
                             std::span<const std::size_t> shards) {
  const Expected<Route*> found = route(spelling);
  return found ? (*found)->run(call, shards) : found.status();
}

Expected<AllReduce*> RouteCollectives::find(const std::string& spelling) {
  const Expected<Route*> found = route(spelling);
  if (!found) return found.status();
  return (*found)->collective.get();
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
  AllReduce& collective = *(*found)->collective;
  const AllReduceCall call = calls_.make(work, routed.segments);
  for (const Gradient& gradient : call.gradients) {
    if (!(*found)->steps.begin(gradient.parameter, call.step)) {
      collective.forget(gradient.parameter);
    }
  }
  // Start here, not at create(): the values of a probe are no gradients.
  if (shared_ != nullptr && !record_lines_.empty()) {
    NF_RETURN_IF_ERROR(shared_->record(std::exchange(record_lines_, {}), kRecordedLines));
  }
  const Traffic before = collective.traffic();
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR((*found)->run(call, calls_.shards()));
  const std::chrono::duration<double> seconds = transport_.now() - begin;
  const std::vector<RegionShare> shares = shares_of(routed);
  add_traffic(work.traffic(), shares, before, collective.traffic());
  add_seconds(work.traffic(), shares, seconds.count());
  return {};
}

void RouteCollectives::undo(std::uint64_t step) {
  for (const auto& [spelling, route] : routes_) {
    for (const std::uint64_t parameter : route.steps.parameters_of(step)) {
      route.collective->undo(parameter);
    }
  }
}

MemoryByRoute RouteCollectives::memory(std::uint64_t step) const {
  MemoryByRoute memory;
  for (const auto& [spelling, route] : routes_) {
    memory[spelling] = route.steps.current(route.collective->save_memory(), step);
  }
  return memory;
}

Status RouteCollectives::load_memory(const MemoryByRoute& memory, std::uint64_t step) {
  for (const auto& [spelling, entries] : memory) {
    const Expected<Route*> found = route(spelling);
    if (!found) return found.status();
    NF_RETURN_IF_ERROR((*found)->collective->load_memory(entries));
    (*found)->steps.loaded(entries, step);
  }
  return {};
}

}  // namespace nf
