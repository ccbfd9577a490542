#include "cuda/runtime/device_path.h"

#include <utility>

#include "cuda/base/launch.h"
#include "cuda/runtime/bucket_passes.h"
#include "cuda/runtime/device_probe.h"
#include "runtime/topology_choice.h"

namespace nf::cuda {

DevicePath::DevicePath(const DeviceContext& context, const PathRequest& request)
    : BucketPath(context.engine, /*is_asynchronous=*/true),
      context_(context),
      allocator_(or_pool(context.allocator)),
      binding_(request.binding),
      collective_(context.ranks() > 1 ? request.options.collective : Collective::kAllReduce),
      topology_(request.topology),
      route_errors_(request.binding, request.options.seed, context.rank()),
      memories_(allocator_, context.stream),
      norms_(binding_, allocator_, context.stream),
      calls_(binding_) {
  const DeviceAllReduceOptions options{.collective = collective_,
                                       .topology = topology_,
                                       .host_group_size = request.options.host_group_size,
                                       .seed = request.options.seed};
  for (const Channel& channel : context_.channels) {
    channels_.push_back(std::make_unique<ChannelState>(channel, options, calls_, memories_));
  }
}

Status DevicePath::check(const FabricOptions& options, const Profile& profile, Topology topology,
                         std::uint32_t ranks) {
  for (const TrainingPhase& phase : profile.phases) {
    for (const auto& [region, route] : phase.routes) {
      if (route == kDenseRoute) continue;
      NF_RETURN_IF_ERROR(check_device_collective({.collective = options.collective,
                                                  .codec = route,
                                                  .topology = topology,
                                                  .host_group_size = options.host_group_size},
                                                 ranks));
    }
  }
  return {};
}

Expected<std::unique_ptr<BucketPath>> DevicePath::create(const DeviceContext& context,
                                                         const PathRequest& request) {
  NF_RETURN_IF_ERROR(
      check(request.options, request.binding.profile(), request.topology, context.ranks()));
  std::unique_ptr<DevicePath> path(new DevicePath(context, request));
  NF_RETURN_IF_ERROR(to_status(cudaGetDevice(&path->device_), "getting the current device"));
  for (const TrainingPhase& phase : request.binding.profile().phases) {
    for (const auto& [region, route] : phase.routes) {
      if (route == kDenseRoute) continue;
      for (const auto& channel : path->channels_) {
        if (const auto found = channel->routes.find(route); !found) return found.status();
      }
    }
  }
  return std::unique_ptr<BucketPath>(std::move(path));
}

// Work on the streams may still use the members.
DevicePath::~DevicePath() {
  for (const auto& channel : channels_) static_cast<void>(cudaStreamSynchronize(channel->stream));
  static_cast<void>(cudaStreamSynchronize(context_.engine_stream));
  static_cast<void>(cudaStreamSynchronize(context_.stream));
}

Status DevicePath::abort_on_error(const Status& status) {
  if (status.ok()) return status;
  for (const auto& channel : channels_) channel->transport.abort(status);
  return status;
}

Status DevicePath::begin_bucket(BucketWork& work) {
  if (work.bucket().index == 0) {
    const Expected<StepReading*> reading = begin_reading(work.step());
    if (!reading) return reading.status();
    reading_ = *reading;
  }
  events_ = &reading_->add_bucket();
  channel_ = channels_[work.bucket().index % channels_.size()].get();
  NF_RETURN_IF_ERROR(
      events_->ready.record(context_.producer ? context_.producer() : context_.stream));
  NF_RETURN_IF_ERROR(events_->ready.block(channel_->stream));
  NF_RETURN_IF_ERROR(channel_->finished.block(channel_->stream));
  if (work.step().is_monitored) NF_RETURN_IF_ERROR(sample(work, *reading_));
  if (work.divides_before_sum()) {
    NF_RETURN_IF_ERROR(
        scale(work.bucket().values, static_cast<float>(1.0 / context_.ranks()), channel_->stream));
  }
  NF_RETURN_IF_ERROR(gather(work));
  NF_RETURN_IF_ERROR(channel_->begun.record(channel_->stream));
  return channel_->begun.block(context_.engine_stream);
}

bool DevicePath::is_dense_in_channel(const BucketWork& work) const {
  return work.joins_dense(context_.max_channel_bytes);
}

Status DevicePath::gather(BucketWork& work) {
  const std::size_t count = work.gathered_count();
  if (count == 0 || is_dense_in_channel(work)) return {};
  const DataType type = work.bucket().values.type;
  DeviceBuffer& room = channel_->gathered;
  const std::size_t bytes = count * size_of(type);
  NF_RETURN_IF_ERROR(room.reserve(bytes, channel_->stream));
  if (work.scatters()) {  // shorter rows leave gaps
    NF_RETURN_IF_ERROR(
        to_status(cudaMemsetAsync(room.data(), 0, bytes, channel_->stream), "clearing gaps"));
  }
  NF_RETURN_IF_ERROR(work.for_each_run(room.data(), [&](auto* own, auto* gathered, auto size) {
    return copy_on_device(gathered, own, size, channel_->stream);
  }));
  work.set_gathered({room.data(), count, type}, nullptr);
  return {};
}

Status DevicePath::scatter(BucketWork& work) {
  if (work.gathered_count() == 0 || is_dense_in_channel(work)) return {};
  return work.for_each_result_run(work.dense().data, [&](auto* own, auto* gathered, auto size) {
    return copy_on_device(own, gathered, size, context_.stream);
  });
}

Status DevicePath::sum_routes(BucketWork& work) {
  NF_RETURN_IF_ERROR(channel_->routes.sum(work, is_dense_in_channel(work), *reading_));
  return channel_->low_bit_summed.record(channel_->stream);
}

Status DevicePath::finish_bucket(BucketWork& work) {
  NF_RETURN_IF_ERROR(channel_->dense_summed.record(context_.engine_stream));
  NF_RETURN_IF_ERROR(channel_->dense_summed.block(context_.stream));
  if (work.has_low_bit()) NF_RETURN_IF_ERROR(channel_->low_bit_summed.block(context_.stream));
  NF_RETURN_IF_ERROR(scatter(work));
  if (work.divides_after_sum()) {
    NF_RETURN_IF_ERROR(
        scale(work.result(), static_cast<float>(1.0 / context_.ranks()), context_.stream));
  }
  NF_RETURN_IF_ERROR(channel_->finished.record(context_.stream));
  NF_RETURN_IF_ERROR(events_->done.record(context_.stream));
  if (work.step().is_monitored) NF_RETURN_IF_ERROR(norms_.add(work, reading_->norms()));
  return work.bucket().is_last ? end_reading() : Status();
}

std::unique_ptr<Probe> DevicePath::probe() {
  return std::make_unique<DeviceProbe>(
      context_, allocator_, collective_,
      [this](const std::string& route) { return channels_.front()->routes.find(route); });
}

// Called between steps, but the last step may still be on the streams.
Expected<MemoryByRoute> DevicePath::memory(std::uint64_t step) const {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "setting the device"));
  NF_RETURN_IF_ERROR(memories_.wait_for_uses());
  NF_RETURN_IF_ERROR(wait(context_, 0, [this] { return cudaStreamQuery(context_.stream); }));
  return memories_.memory(step);
}

Status DevicePath::load_memory(const MemoryByRoute& memory, std::uint64_t step) {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "setting the device"));
  return memories_.load(memory, step);
}

Topology device_topology_of(const FabricOptions& options, std::uint32_t ranks) {
  if (options.topology || options.collective == Collective::kAllReduce) {
    return topology_of(options, options.profile, ranks);
  }
  return topology_of({.collective = options.collective}, options.profile, ranks);
}

Expected<std::unique_ptr<Fabric>> create_fabric(Transport& control, const DeviceContext& context,
                                                FabricOptions options) {
  options.topology = device_topology_of(options, context.ranks());
  return nf::create_fabric(control, std::move(options), [&](const PathRequest& request) {
    return DevicePath::create(context, request);
  });
}

}  // namespace nf::cuda
