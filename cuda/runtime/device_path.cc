#include "cuda/runtime/device_path.h"

#include <algorithm>
#include <utility>

#include "cuda/base/launch.h"
#include "cuda/runtime/bucket_passes.h"
#include "cuda/runtime/device_probe.h"
#include "runtime/runtime_fabric.h"

namespace nf::cuda {
namespace {

constexpr std::size_t kMostSampleBytes = Sampler::kMostValues * sizeof(float);

}  // namespace

DevicePath::DevicePath(const DeviceContext& context, const PathRequest& request)
    : context_(context),
      allocator_(or_pool(context.allocator)),
      binding_(request.binding),
      topology_(request.topology),
      group_(request.options.host_group_size),
      seed_(request.options.seed),
      route_errors_(request.binding, request.options.seed, context.rank()),
      memories_(allocator_, context.stream),
      norms_(binding_, allocator_, context.stream) {
  for (const Channel& channel : context_.channels) {
    channels_.push_back(std::make_unique<ChannelState>(channel, or_pool(channel.allocator)));
  }
  for (const ModelParameter& parameter : binding_.parameters()) {
    keys_.push_back(parameter_key(parameter.name));
  }
}

Status DevicePath::check(const FabricOptions& options, const Profile& profile, Topology topology,
                         std::uint32_t ranks) {
  if (!options.shared_reducer.empty()) {
    return {ErrorCode::kUnsupported, "the memory-side reducer sums in host memory"};
  }
  for (const TrainingPhase& phase : profile.phases) {
    for (const auto& [region, route] : phase.routes) {
      if (route == kDenseRoute) continue;
      NF_RETURN_IF_ERROR(check_device_collective(
          {.codec = route, .topology = topology, .host_group_size = options.host_group_size},
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
  NF_RETURN_IF_ERROR(to_status(cudaGetDevice(&path->device_), "the current device"));
  for (const TrainingPhase& phase : request.binding.profile().phases) {
    for (const auto& [region, route] : phase.routes) {
      if (route == kDenseRoute) continue;
      for (const auto& channel : path->channels_) {
        if (const auto sum = path->find(*channel, route); !sum) return sum.status();
      }
    }
  }
  return std::unique_ptr<BucketPath>(std::move(path));
}

// What is on the streams still uses what goes now.
DevicePath::~DevicePath() {
  for (const auto& channel : channels_) static_cast<void>(cudaStreamSynchronize(channel->stream));
  static_cast<void>(cudaStreamSynchronize(context_.engine_stream));
  static_cast<void>(cudaStreamSynchronize(context_.stream));
}

Expected<DeviceCollective*> DevicePath::find(ChannelState& channel, const std::string& route) {
  std::unique_ptr<DeviceCollective>& sum = channel.sums[route];
  if (sum == nullptr) {
    const Expected<RouteMemory*> memory = memories_.find(route);
    if (!memory) return memory.status();
    Expected<std::unique_ptr<DeviceCollective>> made =
        make_device_collective(channel.transport,
                               {.codec = route,
                                .topology = topology_,
                                .host_group_size = group_,
                                .seed = seed_,
                                .allocator = &channel.allocator},
                               *memory);
    if (!made) return made.status();
    sum = std::move(*made);
  }
  return sum.get();
}

Expected<StepReading*> DevicePath::begin_reading(const TrainingStep& step) {
  std::unique_ptr<StepReading> reading;
  {
    const std::lock_guard lock(mutex_);
    if (!free_readings_.empty()) {
      reading = std::move(free_readings_.back());
      free_readings_.pop_back();
    }
  }
  if (reading == nullptr) reading = std::make_unique<StepReading>(allocator_);
  const auto regions = static_cast<std::uint32_t>(step.traffic.size());
  NF_RETURN_IF_ERROR(reading->begin(regions, kMostSampleBytes, context_.stream));
  const std::lock_guard lock(mutex_);
  return (readings_[&step] = std::move(reading)).get();
}

Status DevicePath::abort_on_error(const Status& status) {
  if (status.ok()) return status;
  for (const auto& channel : channels_) channel->transport.abort(status);
  return status;
}

Status DevicePath::begin_bucket(PlannedSum& sum) {
  if (sum.bucket().index == 0) {
    const Expected<StepReading*> reading = begin_reading(sum.step());
    if (!reading) return reading.status();
    reading_ = *reading;
  }
  events_ = &reading_->add_bucket();
  channel_ = channels_[sum.bucket().index % channels_.size()].get();
  NF_RETURN_IF_ERROR(
      events_->ready.record(context_.producer ? context_.producer() : context_.stream));
  NF_RETURN_IF_ERROR(events_->ready.block(channel_->stream));
  NF_RETURN_IF_ERROR(channel_->finished.block(channel_->stream));
  if (sum.step().is_monitored) NF_RETURN_IF_ERROR(sample(sum, *reading_));
  NF_RETURN_IF_ERROR(
      scale(sum.bucket().values, static_cast<float>(1.0 / context_.ranks()), channel_->stream));
  NF_RETURN_IF_ERROR(gather(sum));
  NF_RETURN_IF_ERROR(channel_->begun.record(channel_->stream));
  return channel_->begun.block(context_.engine_stream);
}

Status DevicePath::sample(PlannedSum& sum, StepReading& reading) {
  const TrainingStep& step = sum.step();
  for (const BucketSlot& slot : sum.bucket().slots) {
    const std::string& route = step.wanted[binding_.region_of(slot.parameter)];
    const Piece piece = route_errors_.sample(step.statistics.step, slot.parameter, route);
    if (piece.count == 0 || piece.first + piece.count > slot.count) continue;
    NF_RETURN_IF_ERROR(reading.add_sample(
        slot.parameter, sum.values(slot.offset + piece.first, piece.count), channel_->stream));
  }
  return {};
}

bool DevicePath::takes_dense(const PlannedSum& sum) const {
  return sum.gathered_count() * size_of(sum.bucket().values.type) <= context_.max_channel_bytes;
}

Status DevicePath::gather(PlannedSum& sum) {
  const std::size_t count = sum.gathered_count();
  if (count == 0 || takes_dense(sum)) return {};
  const DataType type = sum.bucket().values.type;
  DeviceBuffer& room = channel_->gathered;
  NF_RETURN_IF_ERROR(room.reserve(count * size_of(type), channel_->stream));
  NF_RETURN_IF_ERROR(sum.for_each_run(room.data(), [&](auto* own, auto* gathered, auto size) {
    return copy_on_device(gathered, own, size, channel_->stream);
  }));
  sum.set_gathered({room.data(), count, type}, nullptr);
  return {};
}

Status DevicePath::scatter(PlannedSum& sum) {
  if (sum.gathered_count() == 0 || takes_dense(sum)) return {};
  return sum.for_each_run(sum.dense().data, [&](auto* own, auto* gathered, auto size) {
    return copy_on_device(own, gathered, size, context_.stream);
  });
}

Status DevicePath::sum_routes(PlannedSum& sum) {
  for (const RoutedSegments& routed : sum.plan().low_bit) {
    NF_RETURN_IF_ERROR(sum_route(sum, routed));
  }
  if (takes_dense(sum)) NF_RETURN_IF_ERROR(sum_dense(sum));
  return channel_->summed.record(channel_->stream);
}

// As values of their own type, whose codec has its name.
Status DevicePath::sum_dense(PlannedSum& sum) {
  if (sum.plan().dense.empty()) return {};
  const Expected<DeviceCollective*> found =
      find(*channel_, std::string(to_string(sum.bucket().values.type)));
  if (!found) return found.status();
  gradients_.clear();
  for (const Segment& segment : sum.plan().dense) {
    const BucketSlot& slot = segment.slot;
    gradients_.push_back(
        {.parameter = keys_[slot.parameter], .values = sum.values(slot.offset, slot.count)});
  }
  return (*found)->enqueue({.step = sum.step().statistics.step,
                            .epoch = sum.step().epoch,
                            .gradients = gradients_,
                            .loss_scale = sum.step().loss_scale.value},
                           channel_->stream);
}

Status DevicePath::sum_route(PlannedSum& sum, const RoutedSegments& routed) {
  const Expected<DeviceCollective*> found = find(*channel_, routed.route);
  if (!found) return found.status();
  DeviceCollective& all_reduce = **found;
  const std::uint64_t number = sum.step().statistics.step;
  gradients_.clear();
  for (const Segment& segment : routed.segments) {
    const BucketSlot& slot = segment.slot;
    const std::uint64_t key = keys_[slot.parameter];
    memories_.begin(routed.route, key, number);
    gradients_.push_back({.parameter = key,
                          .values = sum.values(slot.offset, slot.count),
                          .rows = binding_.parameters()[slot.parameter].rows});
  }
  SumTimes& times = reading_->add_sum();
  const Traffic before = all_reduce.traffic();
  NF_RETURN_IF_ERROR(times.begin.record(channel_->stream));
  NF_RETURN_IF_ERROR(all_reduce.enqueue({.step = number,
                                         .epoch = sum.step().epoch,
                                         .gradients = gradients_,
                                         .loss_scale = sum.step().loss_scale.value},
                                        channel_->stream));
  NF_RETURN_IF_ERROR(times.end.record(channel_->stream));
  const Traffic after = all_reduce.traffic();
  const auto values = static_cast<double>(routed.values());
  for (const Segment& segment : routed.segments) {
    const double part = static_cast<double>(segment.slot.count) / values;
    sum.traffic()[segment.region].add_low_bit(before, after, part);
    times.shares.push_back({segment.region, part});
  }
  return {};
}

Status DevicePath::finish_bucket(PlannedSum& sum) {
  NF_RETURN_IF_ERROR(channel_->added.record(context_.engine_stream));
  NF_RETURN_IF_ERROR(channel_->added.block(context_.stream));
  if (sum.has_low_bit()) NF_RETURN_IF_ERROR(channel_->summed.block(context_.stream));
  NF_RETURN_IF_ERROR(scatter(sum));
  NF_RETURN_IF_ERROR(channel_->finished.record(context_.stream));
  NF_RETURN_IF_ERROR(events_->done.record(context_.stream));
  if (sum.step().is_monitored) {
    const auto regions = static_cast<std::uint32_t>(sum.norms().size());
    NF_RETURN_IF_ERROR(norms_.add(sum.bucket(), regions, reading_->norms()));
  }
  return sum.bucket().is_last ? end_reading() : Status();
}

Status DevicePath::end_reading() {
  NF_RETURN_IF_ERROR(reading_->end(context_.stream));
  std::size_t held = memories_.size() + norms_.size();
  for (const auto& channel : channels_) {
    held += channel->gathered.size();
    for (const auto& [route, all_reduce] : channel->sums) held += all_reduce->memory();
  }
  const std::lock_guard lock(mutex_);
  held_bytes_ = std::max(held_bytes_, held);
  return {};
}

Status DevicePath::learn(TrainingStep& step) {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "this thread's device"));
  std::unique_ptr<StepReading> reading;
  {
    const std::lock_guard lock(mutex_);
    const auto found = readings_.find(&step);
    if (found == readings_.end()) return {};
    reading = std::move(found->second);
    readings_.erase(found);
  }
  const Status waited = wait(context_, step.statistics.step, [&] { return reading->ask(); });
  if (waited.ok()) take(*reading, step);
  // It is kept where the wait failed, too: to give up pinned memory is to wait for the device, and
  // that may wait for a peer of the engine's, which nobody has given up yet.
  const std::lock_guard lock(mutex_);
  free_readings_.push_back(std::move(reading));
  return waited;
}

void DevicePath::take(const StepReading& reading, TrainingStep& step) {
  if (step.is_monitored) {
    const std::span<const DeviceNorm> norms = reading.read_norms();
    for (std::size_t region = 0; region < norms.size(); ++region) {
      step.statistics.regions[region].energy += norms[region].energy;
      step.statistics.regions[region].non_finite += norms[region].non_finite;
    }
    for (const DeviceSample& sample : reading.samples()) {
      const std::uint32_t region = binding_.region_of(sample.parameter);
      const RouteSample measured = route_errors_.measure(step.statistics.step, sample.parameter,
                                                         step.wanted[region], sample.values);
      step.local.samples[region].error_energy += measured.error_energy;
      step.local.samples[region].energy += measured.energy;
    }
  }
  const std::span<const BucketEvents> buckets = reading.buckets();
  for (std::size_t i = 0; i < buckets.size() && i < step.local.buckets.size(); ++i) {
    step.local.buckets[i] = {.ready = buckets[i].ready.seconds_since(buckets.front().ready),
                             .done = buckets[i].done.seconds_since(buckets.front().ready)};
  }
  for (const SumTimes& sum : reading.sums()) {
    const double seconds = sum.end.seconds_since(sum.begin);
    for (const SumTimes::Share& share : sum.shares) {
      step.traffic[share.region].seconds += seconds * share.part;
    }
  }
}

std::unique_ptr<Probe> DevicePath::probe() {
  return std::make_unique<DeviceProbe>(context_, allocator_, [this](const std::string& route) {
    return find(*channels_.front(), route);
  });
}

// Between steps, but the streams may have the last one before them still.
Expected<std::vector<Fabric::Memory>> DevicePath::memory(std::uint64_t step) const {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "this thread's device"));
  NF_RETURN_IF_ERROR(memories_.join_home_stream());
  NF_RETURN_IF_ERROR(wait(context_, 0, [this] { return cudaStreamQuery(context_.stream); }));
  return memories_.memory(step);
}

Status DevicePath::load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step) {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "this thread's device"));
  return memories_.load(memory, step);
}

std::size_t DevicePath::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

Expected<std::unique_ptr<Fabric>> create_fabric(Transport& control, const DeviceContext& context,
                                                FabricOptions options) {
  return RuntimeFabric::create(
      control, context.engine, std::move(options),
      [&](const PathRequest& request) { return DevicePath::create(context, request); });
}

}  // namespace nf::cuda
