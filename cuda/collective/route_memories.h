// What routes remember from step to step in device memory, whatever the channel. Belongs to the
// thread that sums.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/collective/route_memory.h"
#include "neuron_fabric/fabric.h"

namespace nf::cuda {

class RouteMemories {
 public:
  // `allocator` gives memory for work on `home`.
  RouteMemories(DeviceAllocator& allocator, cudaStream_t home)
      : allocator_(allocator), home_(home) {}

  // Null where the route remembers nothing.
  Expected<RouteMemory*> find(const std::string& route);

  // A parameter is about to be summed along the route. What is remembered of it is of the step
  // before, or it is of another life of the route and forgotten.
  void begin(const std::string& route, std::uint64_t parameter, std::uint64_t step);

  // Work that comes on `home` now comes after all use.
  Status join_home_stream() const;
  // As BucketPath has them. Both wait for `home`.
  Expected<std::vector<Fabric::Memory>> memory(std::uint64_t step) const;
  Status load(std::span<const Fabric::Memory> memory, std::uint64_t step);

  // Device memory held.
  std::size_t size() const;

 private:
  Expected<std::unique_ptr<RouteMemory>> make(const std::string& route) const;

  struct Route {
    std::unique_ptr<RouteMemory> states;
    std::unordered_map<std::uint64_t, std::uint64_t> last_step;  // by parameter
  };

  DeviceAllocator& allocator_;
  const cudaStream_t home_;
  std::map<std::string, Route> routes_;  // those that remember something
};

}  // namespace nf::cuda
