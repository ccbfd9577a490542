// Gradients in device memory: the runtime's BucketPath on streams. Everything about a bucket is put
// on them when it comes, and nobody waits; what it shows is read when its step ends.
//
// begin(), sum_low_bit() and finish() come from one thread, bucket after bucket. A bucket begins
// and is summed at low bits in its channel, with its dense values if those are few; else the engine
// sums them; on the common stream it is then finished:
//
//   channel 0   begin 0 | sum 0 ....... | begin 2 | sum 2 .......
//   channel 1        begin 1 | sum 1 ....... | begin 3 | ...
//   engine          dense 0 | dense 1 ...        | dense 2 ...
//   stream                    finish 0     finish 1        finish 2 ...
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/route_memories.h"
#include "cuda/runtime/bucket_norms.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/step_reading.h"
#include "runtime/bucket_path.h"
#include "runtime/route_error.h"

namespace nf::cuda {

class DevicePath final : public BucketPath {
 public:
  // kUnsupported where a route of the profile, the topology or the reducer has no device form.
  static Status check(const FabricOptions& options, const Profile& profile, Topology topology,
                      std::uint32_t ranks);
  // Fails as check() does.
  static Expected<std::unique_ptr<BucketPath>> create(const DeviceContext& context,
                                                      const PathRequest& request);
  ~DevicePath() override;

  Status begin(PlannedSum& sum) override { return abort_on_error(begin_bucket(sum)); }
  Status sum_low_bit(PlannedSum& sum) override { return abort_on_error(sum_routes(sum)); }
  Status finish(PlannedSum& sum) override { return abort_on_error(finish_bucket(sum)); }
  bool learns_late() const override { return true; }
  Status learn(TrainingStep& step) override;
  std::unique_ptr<Probe> probe() override;
  Expected<std::vector<Fabric::Memory>> memory(std::uint64_t step) const override;
  Status load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step) override;
  std::size_t held_bytes() const override;

 private:
  struct ChannelState {
    ChannelState(const Channel& channel, DeviceAllocator& memory)
        : transport(channel.transport),
          stream(channel.stream),
          allocator(memory),
          gathered(memory) {}

    StreamTransport& transport;
    const cudaStream_t stream;
    DeviceAllocator& allocator;
    std::map<std::string, std::unique_ptr<DeviceCollective>> sums;  // by route
    DeviceBuffer gathered;                                          // dense values of its bucket
    Event begun;
    Event added;  // its dense values, by the engine
    Event summed;
    Event finished;  // its last bucket, on the common stream
  };

  DevicePath(const DeviceContext& context, const PathRequest& request);

  // Of a bucket that cannot be put on the streams, however that came: gives up all channels, since
  // others wait for it, and what this rank has on its streams for them.
  Status abort_on_error(const Status& status);
  Status begin_bucket(PlannedSum& sum);
  Status sum_routes(PlannedSum& sum);
  Status finish_bucket(PlannedSum& sum);

  Expected<DeviceCollective*> find(ChannelState& channel, const std::string& route);
  Expected<StepReading*> begin_reading(const TrainingStep& step);
  Status end_reading();
  Status sample(PlannedSum& sum, StepReading& reading);
  // Whether the dense values of a bucket with low bits travel in its channel: the same on all
  // ranks.
  bool takes_dense(const PlannedSum& sum) const;
  Status gather(PlannedSum& sum);
  Status scatter(PlannedSum& sum);
  Status sum_route(PlannedSum& sum, const RoutedSegments& routed);
  Status sum_dense(PlannedSum& sum);
  void take(const StepReading& reading, TrainingStep& step);

  // Constant after construction.
  const DeviceContext context_;
  DeviceAllocator& allocator_;
  const Binding& binding_;
  const Topology topology_;
  const std::uint32_t group_;  // of kHierarchical
  const std::uint64_t seed_;
  int device_ = 0;
  std::vector<std::uint64_t> keys_;  // by parameter

  RouteErrors route_errors_;  // measured on the thread that ends steps

  // Of the thread that sums.
  RouteMemories memories_;  // outlive the sums that use them
  BucketNorms norms_;
  std::vector<std::unique_ptr<ChannelState>> channels_;
  ChannelState* channel_ = nullptr;  // of the bucket under way
  std::vector<Gradient> gradients_;
  StepReading* reading_ = nullptr;  // of the step under way
  BucketEvents* events_ = nullptr;  // of the bucket under way

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::map<const TrainingStep*, std::unique_ptr<StepReading>> readings_;
  std::vector<std::unique_ptr<StepReading>> free_readings_;
  std::size_t held_bytes_ = 0;
};

// Fabric::create() for gradients on the current device. `control` moves what the runtime itself has
// to say, between hosts.
Expected<std::unique_ptr<Fabric>> create_fabric(Transport& control, const DeviceContext& context,
                                                FabricOptions options);

}  // namespace nf::cuda
