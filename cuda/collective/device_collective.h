// The sum of one route in device memory: AllReduce and ReduceScatter on streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/base/device_memory.h"
#include "cuda/transport/stream_transport.h"
#include "cuda/transport/wire.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"

namespace nf::cuda {

class DeviceExchangePart;
class RouteMemory;

struct DeviceAllReduceOptions {
  Collective collective = Collective::kAllReduce;
  std::string codec = "bf16";
  Topology topology = Topology::kDirect;
  std::uint32_t host_group_size = 0;  // for kHierarchical; divides the number of ranks
  std::uint64_t seed = 0;
  std::size_t tile_bytes = 8 << 20;      // approximate message size; the unit of overlap
  DeviceAllocator* allocator = nullptr;  // pool_allocator() if null
  Wire* wire = nullptr;                  // shared by the collectives of a channel; its own if null
};

// Belongs to one rank, to one thread at a time, and to the device that is current at creation.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;
  DeviceCollective() = default;
  DeviceCollective(const DeviceCollective&) = delete;
  DeviceCollective& operator=(const DeviceCollective&) = delete;

  // Enqueues a sum in place on `stream`. All gradients have one type and are in device memory. All
  // ranks call it with the same parameters. Fails with kOutOfMemory before anything is sent, and
  // with the error of the transport's health().
  //
  // For a reduce-scatter, the gradients are those of all shards, in the order of ShardBorders; each
  // has the shard_key() of its parameter. `shards` is the number of gradients in each shard. The
  // rank's own shard receives the sum; the values of the others are undefined afterwards. Fails
  // with kInvalidArgument if the shards do not match ranks and gradients. An all-reduce has no
  // shards.
  virtual Status enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                         cudaStream_t stream) = 0;
  Status enqueue(const AllReduceCall& call, cudaStream_t stream) {
    return enqueue(call, {}, stream);
  }

  // What it sums, as a part of a DeviceExchange with others. Null if it must run alone.
  virtual DeviceExchangePart* part() { return nullptr; }

  // Bytes that this rank has sent.
  virtual Traffic traffic() const = 0;
  // Device memory held, without the route memory.
  virtual std::size_t memory() const = 0;
  // Deletes the route memory of a parameter and its buffer; in a reduce-scatter, of a shard_key().
  virtual void forget(std::uint64_t /*parameter*/) {}
};

// kBadConfig for an invalid route, kUnsupported for one without a device form.
Status check_device_collective(const DeviceAllReduceOptions& options, std::uint32_t ranks);
// Borrows the transport and the memory, which is RouteMemories::find() of the codec: the
// collectives of all channels share it. Fails like check_device_collective().
Expected<std::unique_ptr<DeviceCollective>> make_device_collective(
    StreamTransport& transport, const DeviceAllReduceOptions& options, RouteMemory* memory);

}  // namespace nf::cuda
