#include "cuda/collective/device_all_reduce.h"

#include <utility>

namespace nf::cuda {

Expected<std::unique_ptr<DeviceAllReduce>> DeviceAllReduce::create(
    StreamTransport& transport, const DeviceAllReduceOptions& options, ResidualMemory* memory) {
  Expected<std::unique_ptr<DeviceExchangePart>> part =
      DeviceExchangePart::create(options, transport.rank(), transport.ranks(), memory);
  if (!part) return part.status();
  return std::unique_ptr<DeviceAllReduce>(
      new DeviceAllReduce(transport, options.wire, std::move(*part)));
}

DeviceAllReduce::DeviceAllReduce(StreamTransport& transport, Wire* wire,
                                 std::unique_ptr<DeviceExchangePart> part)
    : own_wire_(wire == nullptr ? std::make_unique<Wire>() : nullptr),
      part_(std::move(part)),
      exchange_(transport, wire == nullptr ? *own_wire_ : *wire) {}

Status DeviceAllReduce::enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                                cudaStream_t stream) {
  const DeviceExchange::Input input{
      .part = part_.get(), .gradients = call.gradients, .shards = shards};
  return exchange_.enqueue(call, {&input, 1}, stream);
}

Status DeviceAllReduce::enqueue_parts(const AllReduceCall& call,
                                      std::span<const std::uint64_t> firsts, cudaStream_t stream) {
  const DeviceExchange::Input input{
      .part = part_.get(), .gradients = call.gradients, .firsts = firsts};
  return exchange_.enqueue(call, {&input, 1}, stream);
}

}  // namespace nf::cuda
