// The collectives of the low-bit routes in one channel, created on first use, like RouteCollectives
// on the host. The routes of a bucket and its small dense values travel in one exchange, except for
// powersgd and hierarchical sums, which have a collective of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/device_exchange.h"
#include "cuda/collective/route_memories.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/step_reading.h"
#include "runtime/bucket_work.h"
#include "runtime/route_call.h"

namespace nf::cuda {

class ChannelRoutes {
 public:
  // Borrows all arguments. `options` are those of all routes, except for codec, allocator and wire.
  ChannelRoutes(const Channel& channel, const DeviceAllReduceOptions& options,
                const RouteCalls& calls, RouteMemories& memories);

  // The collective of a route.
  Expected<DeviceCollective*> find(const std::string& route);

  // Enqueues the sums of the low-bit segments of a bucket in place, and of its dense ones if
  // `sums_dense`, with the codec of their own type. Adds the bytes sent to the bucket's traffic,
  // and the times to the reading.
  Status sum(BucketWork& work, bool sums_dense, StepReading& reading);

  // Device memory held, without the route memory.
  std::size_t memory() const;

 private:
  struct Route {
    std::unique_ptr<DeviceCollective> collective;
    RouteValues values;  // of the current bucket
  };
  using Routes = std::map<std::string, Route>;

  Expected<Route*> find_in(Routes& routes, const std::string& codec);
  Status add(BucketWork& work, Route& route, std::span<const Segment> segments, bool is_dense,
             StepReading& reading);
  Status run(BucketWork& work, StepReading& reading);

  // Constant after construction.
  StreamTransport& transport_;
  const cudaStream_t stream_;
  const RouteCalls& calls_;
  RouteMemories& memories_;
  Wire wire_;
  const DeviceAllReduceOptions options_;

  Routes routes_;  // by route
  Routes dense_;   // by codec: a route may have the same
  // The exchange of the current bucket, by part.
  std::vector<DeviceExchange::Input> inputs_;
  std::vector<JoinedSegments> joined_;
  DeviceExchange exchange_;  // destroyed first: waits for exchanges of the routes' messages
};

}  // namespace nf::cuda
