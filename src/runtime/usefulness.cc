#include "runtime/usefulness.h"

#include <algorithm>
#include <utility>

#include "collective/route_memory.h"

namespace nf {
namespace {

// The weight of a new step in the running mean of ready times.
constexpr double kNewest = 0.1;

bool has_low_bit(std::span<const std::string> routes) {
  return std::ranges::any_of(routes, [](const std::string& route) { return route != kDenseRoute; });
}

}  // namespace

Usefulness::Usefulness(const Binding& binding, CostFigures figures, std::uint32_t ranks,
                       AllReduceOptions sum, Collective collective, bool joins_routes)
    : binding_(binding),
      figures_(std::move(figures)),
      ranks_(ranks),
      collective_(collective),
      joins_routes_(joins_routes),
      sum_(std::move(sum)),
      model_(figures_.link, ranks, collective) {}

// Cached: layouts rarely change, and a traffic model takes a whole plan.
const TrafficModel& Usefulness::traffic_of(const std::string& route, const Slots& slots) const {
  const auto [it, is_new] = traffic_.try_emplace({route, slots});
  if (!is_new) return it->second;
  // Cannot fail: the binding has checked the routes.
  AllReduceOptions options = sum_;
  options.codec = route;
  if (const auto traffic = model(options, slots)) it->second = *traffic;
  return it->second;
}

Expected<TrafficModel> Usefulness::model(const AllReduceOptions& options,
                                         const Slots& slots) const {
  if (collective_ == Collective::kReduceScatter) {
    std::vector<std::vector<std::size_t>> shards(ranks_);
    for (const auto& [parameter, count, row] : slots) shards[row].push_back(count);
    return model_reduce_scatter(options, shards);
  }
  std::vector<ParameterShape> shapes;
  for (const auto& [parameter, count, row] : slots) {
    shapes.push_back({.count = count, .rows = binding_.parameters()[parameter].rows});
  }
  return model_traffic(options, shapes, ranks_);
}

BucketLoad Usefulness::load_of(const BucketLayout& bucket,
                               std::span<const std::string> routes) const {
  BucketLoad work;
  std::vector<Slots> low_bit(routes.size());
  for (const BucketSlot& slot : bucket.slots) {
    if (slot.count == 0) continue;  // it may lie behind the last row
    const std::uint32_t region = binding_.region_of(slot.parameter);
    if (routes[region] == kDenseRoute || binding_.is_small(slot.parameter)) {
      work.dense_bytes += slot.count * size_of(bucket.type);
    } else {
      const std::size_t row = bucket.row_size > 0 ? slot.offset / bucket.row_size : 0;
      low_bit[region].push_back({slot.parameter, slot.count, row});
    }
  }
  for (std::uint32_t region = 0; region < routes.size(); ++region) {
    if (low_bit[region].empty()) continue;
    const TrafficModel& traffic = traffic_of(routes[region], low_bit[region]);
    BucketLoad::LowBit part;
    part.region = region;
    part.wire_bytes = traffic.bytes - traffic.inside_bytes;
    part.inside_bytes = traffic.inside_bytes;
    part.hops = traffic.hops - traffic.inside_hops;
    part.is_alone = !joins_routes_ || is_low_rank(routes[region]);
    for (const auto& [parameter, count, row] : low_bit[region]) part.values += count;
    part.bytes = part.values * size_of(bucket.type);
    if (const auto it = figures_.codecs.find(routes[region]); it != figures_.codecs.end()) {
      part.codec = it->second;
    }
    work.low_bit.push_back(part);
  }
  return work;
}

std::vector<BucketLoad> Usefulness::loads(std::span<const BucketLayout> buckets,
                                          std::span<const std::string> routes) const {
  std::vector<BucketLoad> loads;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    loads.push_back(load_of(buckets[i], routes));
    if (i < ready_.size()) loads.back().ready = ready_[i];
  }
  return loads;
}

Usefulness::Prediction Usefulness::predict(const TrainingStep& step,
                                           std::span<const std::string> routes) const {
  std::vector<BucketLoad> all = loads(step.buckets, routes);
  const std::vector<BucketTimes>& times = step.statistics.buckets;
  for (std::size_t i = 0; i < std::min(all.size(), times.size()); ++i)
    all[i].ready = times[i].ready;
  const std::vector<bool> is_low_bit(routes.size(), true);
  Prediction prediction{.exposed_seconds = model_.exposed_seconds(all, is_low_bit)};
  for (const BucketLoad& work : all) {
    prediction.busy_seconds += model_.bucket_seconds(work, is_low_bit).total();
    prediction.bytes += static_cast<std::uint64_t>(dense_share(collective_, ranks_) *
                                                   static_cast<double>(work.dense_bytes));
    for (const BucketLoad::LowBit& part : work.low_bit) {
      prediction.bytes += part.wire_bytes + part.inside_bytes;
    }
  }
  return prediction;
}

void Usefulness::observe(const TrainingStep& step) {
  const std::vector<BucketTimes>& times = step.statistics.buckets;
  if (times.empty()) return;
  if (times.size() != ready_.size()) {  // DDP has rebuilt its buckets
    ready_.clear();
    for (const BucketTimes& bucket : times) ready_.push_back(bucket.ready);
  } else {
    for (std::size_t i = 0; i < times.size(); ++i) {
      ready_[i] += kNewest * (times[i].ready - ready_[i]);
    }
  }
  buckets_ = step.buckets;
  if (figures_.is_given) return;

  // Buckets are sent one after the other: count the time of a bucket after the previous one is
  // done.
  double measured = 0;
  double free = 0;
  for (const BucketTimes& bucket : times) {
    measured += std::max(0.0, bucket.done - std::max(bucket.ready, free));
    free = std::max(free, bucket.done);
  }
  const std::vector<BucketLoad> all = loads(step.buckets, step.routes);
  double dense = 0;
  double low_bit = 0;
  for (const BucketLoad& work : all) {
    const CostModel::BucketSeconds seconds =
        model_.bucket_seconds(work, std::vector<bool>(step.routes.size(), true));
    dense += seconds.dense;
    low_bit += seconds.low_bit;
  }
  if (!has_low_bit(step.routes)) {
    model_.correct_dense(dense, measured);
  } else if (low_bit > 0) {
    model_.correct_low_bit(low_bit, std::max(0.0, measured - dense));
  }
}

std::vector<bool> Usefulness::decide(std::uint64_t step, const std::vector<bool>& in_use) const {
  std::vector<std::string> routes;
  std::vector<bool> candidates;
  for (std::uint32_t region = 0; region < binding_.profile().regions.size(); ++region) {
    routes.push_back(binding_.route(region, step));
    candidates.push_back(routes.back() != kDenseRoute);
  }
  if (buckets_.empty()) return std::vector<bool>(routes.size(), true);
  return model_.useful(loads(buckets_, routes), candidates, in_use);
}

}  // namespace nf
