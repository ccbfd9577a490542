// The collectives of a job's low-bit routes in host memory, created on first use, and their route
// memory. The routes of a bucket travel in one exchange, except for powersgd and those of a
// memory-side reducer, which have a collective of their own. Belongs to the thread of
// sum_low_bit().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/exchange.h"
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

  // For benchmarking: one call of a route alone, the bytes of all its calls, and the end of its
  // memory. `shards` is RouteValues::shards.
  Status run(const std::string& route, const AllReduceCall& call,
             std::span<const std::size_t> shards);
  Traffic traffic(const std::string& route) const;
  void reset(const std::string& route);

  // Sums the low-bit segments of a bucket in place, and its dense ones if they travel with them.
  // Adds the bytes sent and the time taken to the bucket's traffic.
  Status sum(BucketWork& work);

  // Restores the route memory from before `step`, the last one that was summed.
  void undo(std::uint64_t step);

  // Route memory that is not stale if `step` is the next one.
  MemoryByRoute memory(std::uint64_t step) const;
  // As of the step before `step`. If a size does not match, fails and names the parameter.
  Status load_memory(const MemoryByRoute& memory, std::uint64_t step);

 private:
  struct Route {
    // Calls work with the collective or the part, which have the same functions for memory.
    template <typename Work>
    auto visit(Work work) const {
      return alone != nullptr ? work(*alone) : work(*part);
    }

    std::unique_ptr<AllReduce> alone;    // a collective of its own,
    std::unique_ptr<ExchangePart> part;  // or a part of exchanges
    RouteSteps steps;
    RouteValues values;  // of the current bucket
  };
  Expected<Route*> route(const std::string& spelling);
  Status make(const std::string& spelling, Route& route);
  Expected<std::unique_ptr<ExchangePart>> make_part(const std::string& codec);
  // Joins it on the first call.
  Expected<SharedReducer*> shared_reducer();
  Status begin(Route& route, const BucketWork& work, const RoutedSegments& routed);
  Status sum_alone(BucketWork& work, Route& route, const RoutedSegments& routed);
  Status join_dense(const BucketWork& work);
  void join(ExchangePart& part, const RouteValues& values, std::span<const Segment> segments,
            bool is_dense);
  Status exchange(BucketWork& work);

  Transport& transport_;
  const Binding& binding_;
  const Collective collective_;
  const AllReduceOptions options_;
  const std::string reducer_name_;
  std::string record_lines_;               // empty once recording has started
  std::unique_ptr<SharedReducer> shared_;  // outlives the routes that use it
  RouteCalls calls_;
  std::map<std::string, Route> routes_;
  std::optional<Exchange> exchange_;     // created with the first part
  std::unique_ptr<ExchangePart> dense_;  // fp32, for small dense values
  RouteValues dense_values_;

  // The exchange of the current bucket, by part.
  std::vector<JoinedSegments> joined_;
  std::vector<Exchange::Input> inputs_;
};

}  // namespace nf
