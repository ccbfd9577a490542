#include "runtime/route_collectives.h"

#include <chrono>
#include <utility>
#include <vector>

#include "collective/host_groups.h"
#include "collective/low_rank_all_reduce.h"
#include "neuron_fabric/reduce_scatter.h"
#include "runtime/host_probe.h"
#include "runtime/shared_all_reduce.h"

namespace nf {
namespace {

constexpr std::uint64_t kRecordedLines = 100'000;  // 20 MB as text

template <typename T>
Status move_to(Expected<std::unique_ptr<T>> made, std::unique_ptr<T>& to) {
  if (!made) return made.status();
  to = std::move(*made);
  return {};
}

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
  }
  if (!reducer_name_.empty() && SharedAllReduce::supports(spelling)) {
    const Expected<SharedReducer*> shared = shared_reducer();
    if (!shared) return shared.status();
    return move_to(SharedAllReduce::create(transport_, **shared, options), route.alone);
  }
  if (is_low_rank(spelling)) {
    return move_to(LowRankAllReduce::create(transport_, options), route.alone);
  }
  return move_to(make_part(spelling), route.part);
}

Expected<std::unique_ptr<ExchangePart>> RouteCollectives::make_part(const std::string& codec) {
  AllReduceOptions options = options_;
  options.codec = codec;
  // Buckets of a single rank have no rows.
  const Collective collective = transport_.ranks() > 1 ? collective_ : Collective::kAllReduce;
  Expected<std::unique_ptr<ExchangePart>> part =
      ExchangePart::create(options, collective, transport_.rank(), transport_.ranks());
  if (part && !exchange_) exchange_.emplace(transport_, options, collective);
  return part;
}

Expected<SharedReducer*> RouteCollectives::shared_reducer() {
  if (shared_ == nullptr) {
    std::vector<std::size_t> counts{HostProbe::kSize.shape.count};
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
  if (!found) return found.status();
  if ((*found)->alone != nullptr) return (*found)->alone->run(call);
  const Exchange::Input input{
      .part = (*found)->part.get(), .gradients = call.gradients, .shards = shards};
  return exchange_->run(call, std::span(&input, 1));
}

Traffic RouteCollectives::traffic(const std::string& spelling) const {
  const auto known = routes_.find(spelling);
  if (known == routes_.end()) return {};
  return known->second.visit([](auto& sum) -> Traffic { return sum.traffic(); });
}

void RouteCollectives::reset(const std::string& spelling) {
  if (const auto known = routes_.find(spelling); known != routes_.end()) {
    known->second.visit([](auto& sum) { sum.reset(); });
  }
}

Status RouteCollectives::sum(BucketWork& work) {
  joined_.clear();
  inputs_.clear();
  for (const RoutedSegments& routed : work.plan().low_bit) {
    const Expected<Route*> found = route(routed.route);
    if (!found) return found.status();
    NF_RETURN_IF_ERROR(begin(**found, work, routed));
    if ((*found)->alone != nullptr) {
      NF_RETURN_IF_ERROR(sum_alone(work, **found, routed));
    } else {
      join(*(*found)->part, (*found)->values, routed.segments, /*is_dense=*/false);
    }
  }
  if (work.joins_dense()) NF_RETURN_IF_ERROR(join_dense(work));
  return joined_.empty() ? Status() : exchange(work);
}

Status RouteCollectives::begin(Route& route, const BucketWork& work, const RoutedSegments& routed) {
  calls_.fill(work, routed.segments, route.values);
  for (const Gradient& gradient : route.values.gradients) {
    if (route.steps.begin(gradient.parameter, work.step().statistics.step)) continue;
    route.visit([&](auto& sum) { sum.forget(gradient.parameter); });
  }
  // Start here, not at create(): the values of a probe are no gradients.
  if (shared_ == nullptr || record_lines_.empty()) return {};
  return shared_->record(std::exchange(record_lines_, {}), kRecordedLines);
}

Status RouteCollectives::sum_alone(BucketWork& work, Route& route, const RoutedSegments& routed) {
  AllReduceCall call = RouteCalls::call_of(work);
  call.gradients = route.values.gradients;
  const Traffic before = route.alone->traffic();
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(route.alone->run(call));
  const std::chrono::duration<double> seconds = transport_.now() - begin;
  const std::vector<RegionShare> shares = shares_of(routed.segments);
  add_traffic(work.traffic(), shares, before, route.alone->traffic());
  add_seconds(work.traffic(), shares, seconds.count());
  return {};
}

Status RouteCollectives::join_dense(const BucketWork& work) {
  if (dense_ == nullptr) NF_RETURN_IF_ERROR(move_to(make_part("fp32"), dense_));
  calls_.fill(work, work.plan().dense, dense_values_);
  join(*dense_, dense_values_, work.plan().dense, /*is_dense=*/true);
  return {};
}

void RouteCollectives::join(ExchangePart& part, const RouteValues& values,
                            std::span<const Segment> segments, bool is_dense) {
  joined_.push_back({.segments = segments, .is_dense = is_dense, .before = part.traffic()});
  inputs_.push_back({.part = &part, .gradients = values.gradients, .shards = values.shards});
}

Status RouteCollectives::exchange(BucketWork& work) {
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(exchange_->run(RouteCalls::call_of(work), inputs_));
  const std::chrono::duration<double> seconds = transport_.now() - begin;
  for (std::size_t i = 0; i < joined_.size(); ++i) joined_[i].after = inputs_[i].part->traffic();
  add_seconds(work.traffic(), add_exchange(work.traffic(), joined_), seconds.count());
  return {};
}

void RouteCollectives::undo(std::uint64_t step) {
  for (const auto& [spelling, route] : routes_) {
    for (const std::uint64_t parameter : route.steps.parameters_of(step)) {
      route.visit([&](auto& sum) { sum.undo(parameter); });
    }
  }
}

MemoryByRoute RouteCollectives::memory(std::uint64_t step) const {
  MemoryByRoute memory;
  for (const auto& [spelling, route] : routes_) {
    memory[spelling] =
        route.steps.current(route.visit([](auto& sum) { return sum.save_memory(); }), step);
  }
  return memory;
}

Status RouteCollectives::load_memory(const MemoryByRoute& memory, std::uint64_t step) {
  for (const auto& [spelling, entries] : memory) {
    const Expected<Route*> found = route(spelling);
    if (!found) return found.status();
    NF_RETURN_IF_ERROR(
        (*found)->visit([&items = entries](auto& sum) { return sum.load_memory(items); }));
    (*found)->steps.loaded(entries, step);
  }
  return {};
}

}  // namespace nf
