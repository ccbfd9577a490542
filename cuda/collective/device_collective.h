// What sums gradients in device memory along one route: AllReduce on streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/base/device_memory.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class RouteMemory;

struct DeviceAllReduceOptions {
  std::string codec = "bf16";
  Topology topology = Topology::kDirect;
  std::uint32_t host_group_size =
      0;  // ranks in a group of kHierarchical; divides the number of ranks
  std::uint64_t seed = 0;
  std::size_t tile_bytes = 8 << 20;      // of a message, about; the unit of overlap
  DeviceAllocator* allocator = nullptr;  // pool_allocator() where null
};

// Belongs to one rank and one thread at a time, and to the device that is current when it is made.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;
  DeviceCollective() = default;
  DeviceCollective(const DeviceCollective&) = delete;
  DeviceCollective& operator=(const DeviceCollective&) = delete;

  // Sums in place, after what is on `stream` already; what comes on it later sees the sums. All
  // gradients have one type and lie in device memory. Every rank calls with the same parameters.
  // Fails with kOutOfMemory before anything is sent, and with what the transport's health() says.
  virtual Status enqueue(const AllReduceCall& call, cudaStream_t stream) = 0;

  // Bytes this rank has sent.
  virtual Traffic traffic() const = 0;
  // Device memory held now, but for what the route remembers.
  virtual std::size_t memory() const = 0;
  // Lets the route remember nothing of a parameter, and gives up the room for it.
  virtual void forget(std::uint64_t /*parameter*/) {}
};

// Whether a route remembers anything from call to call: powersgd and error feedback do.
bool remembers(const std::string& codec);

// kBadConfig for a route that cannot be, and kUnsupported for one that has no device form.
Status check_device_collective(const DeviceAllReduceOptions& options, std::uint32_t ranks);
// Borrows the transport, and the memory where the route remembers() something, as RouteMemories has
// it: sums that take turns share it. Fails as check_device_collective() does.
Expected<std::unique_ptr<DeviceCollective>> make_device_collective(
    StreamTransport& transport, const DeviceAllReduceOptions& options, RouteMemory* memory);

}  // namespace nf::cuda
