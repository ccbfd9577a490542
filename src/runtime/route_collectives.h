// The collectives of a job's low-bit routes in host memory, created on first use, and their route
// memory. Belongs to the thread of sum_low_bit().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "collective/codec_all_reduce.h"
#include "collective/route_memory.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/shared_reducer.h"
#include "runtime/bucket_work.h"
#include "runtime/route_call.h"

namespace nf {

// The memory-side reducer that sums g_binary and g_ternary. All ranks are on one host and emulate
// it in shared memory (docs/cxl.md).
struct MemorySideReducer {
  std::string name = {};          // of the shared memory; empty: no such reducer
  std::string record_lines = {};  // if not empty, rank 0 writes the first gradient lines here
};

class RouteCollectives {
 public:
  // Borrows transport and binding.
  RouteCollectives(Transport& transport, const Binding& binding, Collective collective,
                   const AllReduceOptions& options, MemorySideReducer reducer);

  // For benchmarking: the collective of a route, and one call of it. `shards` is
  // RouteCalls::shards().
  Expected<AllReduce*> find(const std::string& route);
  Status run(const std::string& route, const AllReduceCall& call,
             std::span<const std::size_t> shards);

  // Sums the low-bit segments of a bucket in place, one collective per route. Adds the bytes sent
  // and the time taken to the bucket's traffic.
  Status sum(BucketWork& work);

  // Restores the route memory from before `step`, the last one that was summed.
  void undo(std::uint64_t step);

  // Route memory that is not stale if `step` is the next one.
  MemoryByRoute memory(std::uint64_t step) const;
  // As of the step before `step`. If a size does not match, fails and names the parameter.
  Status load_memory(const MemoryByRoute& memory, std::uint64_t step);

 private:
  struct Route {
    // `shards` is the number of gradients in each shard of a reduce-scatter, in the order of
    // ShardBorders; empty in an all-reduce.
    Status run(const AllReduceCall& call, std::span<const std::size_t> shards);

    std::unique_ptr<AllReduce> collective;
    CodecAllReduce* scatter = nullptr;  // the same object in a reduce-scatter
    RouteSteps steps;
  };

  Expected<Route*> route(const std::string& spelling);
  Status make(const std::string& spelling, Route& route);
  // Joins it on the first call.
  Expected<SharedReducer*> shared_reducer();
  Status sum_route(BucketWork& work, const RoutedSegments& routed);

  Transport& transport_;
  const Binding& binding_;
  const Collective collective_;
  const AllReduceOptions options_;
  const std::string reducer_name_;
  std::string record_lines_;               // empty once recording has started
  std::unique_ptr<SharedReducer> shared_;  // outlives the routes that use it
  RouteCalls calls_;
  std::map<std::string, Route> routes_;
};

}  // namespace nf
