// The path of gradients in device memory. All work on a bucket is enqueued on streams without host
// synchronisation. The measurements are read at the end of the step: device_measurements.cc.
//
// One thread calls begin(), sum_low_bit() and finish(), bucket by bucket. The channel of a bucket
// runs begin() and the low-bit sums, and the dense sum if it is small; otherwise the engine sums
// the dense values. The common stream finishes the bucket:
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
#include "cuda/runtime/channel_routes.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/step_reading.h"
#include "runtime/bucket_path.h"
#include "runtime/route_call.h"
#include "runtime/route_error.h"

namespace nf::cuda {

class DevicePath final : public BucketPath {
 public:
  // kUnsupported if a route of the profile or the topology has no device form.
  static Status check(const FabricOptions& options, const Profile& profile, Topology topology,
                      std::uint32_t ranks);
  // Fails like check().
  static Expected<std::unique_ptr<BucketPath>> create(const DeviceContext& context,
                                                      const PathRequest& request);
  ~DevicePath() override;

  // Hierarchical sums have a collective each.
  bool joins_routes() const override { return topology_ != Topology::kHierarchical; }
  Status begin(BucketWork& work) override { return abort_on_error(begin_bucket(work)); }
  Status sum_low_bit(BucketWork& work) override { return abort_on_error(sum_routes(work)); }
  Status finish(BucketWork& work) override { return abort_on_error(finish_bucket(work)); }
  Status collect(TrainingStep& step) override;
  std::unique_ptr<Probe> probe() override;
  Expected<MemoryByRoute> memory(std::uint64_t step) const override;
  Status load_memory(const MemoryByRoute& memory, std::uint64_t step) override;
  std::size_t held_bytes() const override;

 private:
  struct ChannelState {
    ChannelState(const Channel& channel, const DeviceAllReduceOptions& options,
                 const RouteCalls& calls, RouteMemories& memories)
        : transport(channel.transport),
          stream(channel.stream),
          routes(channel, options, calls, memories),
          gathered(or_pool(channel.allocator)) {}

    StreamTransport& transport;
    const cudaStream_t stream;
    ChannelRoutes routes;
    DeviceBuffer gathered;  // the dense values of its bucket
    Event begun;
    Event dense_summed;  // by the engine
    Event low_bit_summed;
    Event finished;  // its last bucket, on the common stream
  };

  DevicePath(const DeviceContext& context, const PathRequest& request);

  // If a bucket could not be enqueued for any reason, aborts all channels: other ranks wait for it,
  // and this rank's streams wait for them.
  Status abort_on_error(const Status& status);
  Status begin_bucket(BucketWork& work);
  Status sum_routes(BucketWork& work);
  Status finish_bucket(BucketWork& work);

  Expected<StepReading*> begin_reading(const TrainingStep& step);
  Status end_reading();
  Status sample(BucketWork& work, StepReading& reading);
  // Whether the channel sums the dense values of a bucket with low-bit routes. The same on all
  // ranks.
  bool is_dense_in_channel(const BucketWork& work) const;
  Status gather(BucketWork& work);
  Status scatter(BucketWork& work);
  void add_measurements(const StepReading& reading, TrainingStep& step);

  // Constant after construction.
  const DeviceContext context_;
  DeviceAllocator& allocator_;
  const Binding& binding_;
  const Collective collective_;  // kAllReduce if there is only one rank
  const Topology topology_;
  int device_ = 0;

  RouteErrors route_errors_;  // measure() on the thread of end_step()

  // Used by the thread of the hook.
  RouteMemories memories_;  // outlive the collectives that use them
  BucketNorms norms_;
  const RouteCalls calls_;
  std::vector<std::unique_ptr<ChannelState>> channels_;
  ChannelState* channel_ = nullptr;  // of the current bucket
  StepReading* reading_ = nullptr;   // of the current step
  BucketEvents* events_ = nullptr;   // of the current bucket

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::map<const TrainingStep*, std::unique_ptr<StepReading>> readings_;
  std::vector<std::unique_ptr<StepReading>> free_readings_;
  std::size_t held_bytes_ = 0;
};

// The topology of low-bit routes of a fabric on a device: as topology_of(), but the default of a
// reduce-scatter is never hierarchical, which devices do not support.
Topology device_topology_of(const FabricOptions& options, std::uint32_t ranks);

// Fabric::create() for gradients on the current device. `control` carries the messages of the
// runtime itself.
Expected<std::unique_ptr<Fabric>> create_fabric(Transport& control, const DeviceContext& context,
                                                FabricOptions options);

}  // namespace nf::cuda
