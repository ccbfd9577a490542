// AllReduce and ReduceScatter with one codec on device memory and CUDA streams, like
// CodecAllReduce: an exchange of one part. Schedules, plans and bytes are those of the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/device_exchange.h"
#include "cuda/collective/device_exchange_part.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class DeviceAllReduce final : public DeviceCollective {
 public:
  // As DeviceExchangePart::check().
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
    return DeviceExchangePart::check(options, ranks);
  }
  // Keeps references to the transport, the wire and the memory. A codec that keeps residuals needs
  // a memory. Fails like check().
  static Expected<std::unique_ptr<DeviceAllReduce>> create(StreamTransport& transport,
                                                           const DeviceAllReduceOptions& options,
                                                           ResidualMemory* memory = nullptr);

  using DeviceCollective::enqueue;
  Status enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                 cudaStream_t stream) override;
  // An all-reduce of parts of parameters, as in DeviceExchange::Input.
  Status enqueue_parts(const AllReduceCall& call, std::span<const std::uint64_t> firsts,
                       cudaStream_t stream);
  DeviceExchangePart* part() override { return part_.get(); }
  Traffic traffic() const override { return part_->traffic(); }
  std::size_t memory() const override { return part_->memory(); }
  void forget(std::uint64_t parameter) override { part_->forget(parameter); }

 private:
  DeviceAllReduce(StreamTransport& transport, Wire* wire, std::unique_ptr<DeviceExchangePart> part);

  const std::unique_ptr<Wire> own_wire_;  // null if the wire is shared
  const std::unique_ptr<DeviceExchangePart> part_;
  DeviceExchange exchange_;  // destroyed first: waits for exchanges of the part's messages
};

}  // namespace nf::cuda
