// The route memory of all routes on a device, shared by all channels. Belongs to the thread of
// sum_low_bit().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "collective/route_memory.h"
#include "cuda/collective/route_memory.h"

namespace nf::cuda {

class RouteMemories {
 public:
  // `allocator` allocates for work on `home`.
  RouteMemories(DeviceAllocator& allocator, cudaStream_t home)
      : allocator_(allocator), home_(home) {}

  // Null if the route keeps no memory.
  Expected<RouteMemory*> find(const std::string& route);

  // The call is about to use the route: deletes stale memory of its parameters.
  void begin(const std::string& route, const AllReduceCall& call);

  // Later work on `home` waits for all uses of the memory.
  Status wait_for_uses() const;
  // As in BucketPath. Both wait for `home`.
  Expected<MemoryByRoute> memory(std::uint64_t step) const;
  Status load(const MemoryByRoute& memory, std::uint64_t step);

  // Device memory held.
  std::size_t size() const;

 private:
  Expected<std::unique_ptr<RouteMemory>> make(const std::string& route) const;

  struct Route {
    std::unique_ptr<RouteMemory> states;
    RouteSteps steps;
  };

  DeviceAllocator& allocator_;
  const cudaStream_t home_;
  std::map<std::string, Route> routes_;  // those with memory
};

}  // namespace nf::cuda
