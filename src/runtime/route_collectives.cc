#include "runtime/route_collectives.h"

#include <chrono>
#include <utility>

#include "runtime/host_probe.h"
#include "runtime/shared_all_reduce.h"

namespace nf {
namespace {

constexpr std::uint64_t kRecordedLines = 100'000;  // 20 MB as text

}  // namespace

RouteCollectives::RouteCollectives(Transport& transport, const Binding& binding,
                                   const AllReduceOptions& options, std::string shared_reducer,
                                   std::string record_lines)
    : transport_(transport),
      binding_(binding),
      options_(options),
      shared_name_(std::move(shared_reducer)),
      to_record_(std::move(record_lines)) {
  for (const ModelParameter& parameter : binding.parameters()) {
    keys_.push_back(parameter_key(parameter.name));
  }
}

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
  if (shared_name_.empty() || !SharedAllReduce::takes(spelling)) {
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
        {.name = shared_name_,
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

Status RouteCollectives::sum(PlannedSum& bucket) {
  for (const RoutedSegments& routed : bucket.plan().low_bit) {
    NF_RETURN_IF_ERROR(sum_route(bucket, routed));
  }
  return {};
}

Status RouteCollectives::sum_route(PlannedSum& bucket, const RoutedSegments& routed) {
  const Expected<Route*> found = route(routed.route);
  if (!found) return found.status();
  Route& route = **found;
  const TrainingStep& step = bucket.step();
  const std::uint64_t number = step.statistics.step;
  gradients_.clear();
  for (const Segment& segment : routed.segments) {
    const BucketSlot& slot = segment.slot;
    const std::uint64_t key = keys_[slot.parameter];
    // What error feedback kept is of the step before, or of another life of the route.
    std::uint64_t& last_step = route.last_step[key];
    if (last_step + 1 != number) route.all_reduce->forget(key);
    last_step = number;
    gradients_.push_back({.parameter = key,
                          .values = bucket.values(slot.offset, slot.count),
                          .rows = binding_.parameters()[slot.parameter].rows});
  }
  // Only now: what a probe sums are no gradients.
  if (shared_ != nullptr && !to_record_.empty()) {
    NF_RETURN_IF_ERROR(shared_->record(std::exchange(to_record_, {}), kRecordedLines));
  }
  const Traffic before = route.all_reduce->traffic();
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(route.all_reduce->run({.step = number,
                                            .epoch = step.epoch,
                                            .gradients = gradients_,
                                            .loss_scale = step.loss_scale.value,
                                            .loss_scale_version = step.loss_scale.version}));
  const Traffic after = route.all_reduce->traffic();
  const std::chrono::duration<double> seconds = transport_.now() - begin;
  const auto values = static_cast<double>(routed.values());
  for (const Segment& segment : routed.segments) {
    const double share = static_cast<double>(segment.slot.count) / values;
    RegionTraffic& traffic = bucket.traffic()[segment.region];
    traffic.add_low_bit(before, after, share);
    traffic.seconds += seconds.count() * share;
  }
  return {};
}

void RouteCollectives::undo(std::uint64_t step) {
  for (const auto& [spelling, route] : routes_) {
    for (const auto& [key, last_step] : route.last_step) {
      if (last_step == step) route.all_reduce->undo(key);
    }
  }
}

std::vector<Fabric::Memory> RouteCollectives::memory(std::uint64_t step) const {
  std::vector<Fabric::Memory> memory;
  for (const auto& [spelling, route] : routes_) {
    for (Remembered& remembered : route.all_reduce->remembered()) {
      const auto last = route.last_step.find(remembered.parameter);
      if (last == route.last_step.end() || last->second + 1 < step) continue;
      memory.push_back({.route = spelling, .remembered = std::move(remembered)});
    }
  }
  return memory;
}

Status RouteCollectives::load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step) {
  std::map<std::string, std::vector<Remembered>> by_route;
  for (const Fabric::Memory& item : memory) by_route[item.route].push_back(item.remembered);
  for (auto& [spelling, remembered] : by_route) {
    const Expected<Route*> found = route(spelling);
    if (!found) return found.status();
    NF_RETURN_IF_ERROR((*found)->all_reduce->remember(remembered));
    for (const Remembered& item : remembered) {
      (*found)->last_step[item.parameter] = step - 1;
    }
  }
  return {};
}

}  // namespace nf
