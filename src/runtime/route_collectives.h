// The all-reduces of a job's low-bit routes, made when a route is first used, and what they
// remember. Belongs to the thread that sums.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/fabric.h"
#include "neuron_fabric/shared_reducer.h"
#include "runtime/bucket_work.h"

namespace nf {

class RouteCollectives {
 public:
  // Borrows transport and binding. `shared_reducer` and `record_lines` as FabricOptions has them.
  RouteCollectives(Transport& transport, const Binding& binding, const AllReduceOptions& options,
                   std::string shared_reducer, std::string record_lines);

  // The all-reduce of a route, for whoever measures it.
  Expected<AllReduce*> find(const std::string& route);

  // Sums the low-bit segments of a bucket in place, one collective a route. What it sent and how
  // long it took is added to the bucket's traffic.
  Status sum(PlannedSum& bucket);

  // What routes remember is as it was before `step`, the last one that was summed.
  void undo(std::uint64_t step);

  // Without what will be forgotten, as `step` is the next one.
  std::vector<Fabric::Memory> memory(std::uint64_t step) const;
  // As of the step before `step`. Fails, naming the parameter, where a size does not fit.
  Status load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step);

 private:
  struct Route {
    std::unique_ptr<AllReduce> all_reduce;
    std::unordered_map<std::uint64_t, std::uint64_t> last_step;  // by parameter key
  };

  Expected<Route*> route(const std::string& spelling);
  Expected<std::unique_ptr<AllReduce>> make(const std::string& spelling);
  // Meets the others at it, the first time.
  Expected<SharedReducer*> shared_reducer();
  Status sum_route(PlannedSum& bucket, const RoutedSegments& routed);

  Transport& transport_;
  const Binding& binding_;
  const AllReduceOptions options_;
  const std::string shared_name_;
  std::string to_record_;                  // empty once it is being written
  std::unique_ptr<SharedReducer> shared_;  // outlives the routes that use it
  std::vector<std::uint64_t> keys_;        // by parameter
  std::map<std::string, Route> routes_;
  std::vector<Gradient> gradients_;
};

}  // namespace nf
