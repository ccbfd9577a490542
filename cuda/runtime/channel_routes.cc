#include "cuda/runtime/channel_routes.h"

#include <utility>

namespace nf::cuda {
namespace {

DeviceAllReduceOptions in_channel(DeviceAllReduceOptions options, const Channel& channel,
                                  Wire& wire) {
  options.allocator = &or_pool(channel.allocator);
  options.wire = &wire;
  return options;
}

}  // namespace

ChannelRoutes::ChannelRoutes(const Channel& channel, const DeviceAllReduceOptions& options,
                             const RouteCalls& calls, RouteMemories& memories)
    : transport_(channel.transport),
      stream_(channel.stream),
      calls_(calls),
      memories_(memories),
      options_(in_channel(options, channel, wire_)),
      exchange_(transport_, wire_) {}

Expected<DeviceCollective*> ChannelRoutes::find(const std::string& route) {
  const Expected<Route*> found = find_in(routes_, route);
  if (!found) return found.status();
  return (*found)->collective.get();
}

Expected<ChannelRoutes::Route*> ChannelRoutes::find_in(Routes& routes, const std::string& codec) {
  Route& route = routes[codec];
  if (route.collective == nullptr) {
    const Expected<RouteMemory*> memory = memories_.find(codec);
    if (!memory) return memory.status();
    DeviceAllReduceOptions options = options_;
    options.codec = codec;
    Expected<std::unique_ptr<DeviceCollective>> made =
        make_device_collective(transport_, options, *memory);
    if (!made) return made.status();
    route.collective = std::move(*made);
  }
  return &route;
}

Status ChannelRoutes::sum(BucketWork& work, bool sums_dense, StepReading& reading) {
  inputs_.clear();
  joined_.clear();
  for (const RoutedSegments& routed : work.plan().low_bit) {
    const Expected<Route*> found = find_in(routes_, routed.route);
    if (!found) return found.status();
    Route& route = **found;
    calls_.fill(work, routed.segments, route.values);
    AllReduceCall call = RouteCalls::call_of(work);
    call.gradients = route.values.gradients;
    memories_.begin(routed.route, call);
    NF_RETURN_IF_ERROR(add(work, route, routed.segments, /*is_dense=*/false, reading));
  }
  if (sums_dense) {
    const Expected<Route*> found =
        find_in(dense_, std::string(to_string(work.bucket().values.type)));
    if (!found) return found.status();
    calls_.fill(work, work.plan().dense, (*found)->values);
    NF_RETURN_IF_ERROR(add(work, **found, work.plan().dense, /*is_dense=*/true, reading));
  }
  return inputs_.empty() ? Status() : run(work, reading);
}

// Adds the values of the route to the exchange of the bucket, or sums them at once if it has a
// collective of its own.
Status ChannelRoutes::add(BucketWork& work, Route& route, std::span<const Segment> segments,
                          bool is_dense, StepReading& reading) {
  DeviceCollective& collective = *route.collective;
  JoinedSegments joined{.segments = segments, .is_dense = is_dense, .before = collective.traffic()};
  if (DeviceExchangePart* part = collective.part(); part != nullptr) {
    joined_.push_back(joined);
    inputs_.push_back(
        {.part = part, .gradients = route.values.gradients, .shards = route.values.shards});
    return {};
  }
  AllReduceCall call = RouteCalls::call_of(work);
  call.gradients = route.values.gradients;
  CollectiveTimes& times = reading.add_collective();
  NF_RETURN_IF_ERROR(times.begin.record(stream_));
  NF_RETURN_IF_ERROR(collective.enqueue(call, route.values.shards, stream_));
  NF_RETURN_IF_ERROR(times.end.record(stream_));
  joined.after = collective.traffic();
  times.shares = add_exchange(work.traffic(), {&joined, 1});
  return {};
}

Status ChannelRoutes::run(BucketWork& work, StepReading& reading) {
  CollectiveTimes& times = reading.add_collective();
  NF_RETURN_IF_ERROR(times.begin.record(stream_));
  NF_RETURN_IF_ERROR(exchange_.enqueue(RouteCalls::call_of(work), inputs_, stream_));
  NF_RETURN_IF_ERROR(times.end.record(stream_));
  for (std::size_t i = 0; i < joined_.size(); ++i) joined_[i].after = inputs_[i].part->traffic();
  times.shares = add_exchange(work.traffic(), joined_);
  return {};
}

std::size_t ChannelRoutes::memory() const {
  std::size_t bytes = 0;
  for (const Routes* routes : {&routes_, &dense_}) {
    for (const auto& [codec, route] : *routes) {
      if (route.collective != nullptr) bytes += route.collective->memory();
    }
  }
  return bytes;
}

}  // namespace nf::cuda
