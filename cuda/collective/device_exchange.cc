#include "cuda/collective/device_exchange.h"

#include <algorithm>

namespace nf::cuda {

Status DeviceExchange::enqueue(const AllReduceCall& call, std::span<const Input> inputs,
                               cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  parts_.clear();
  for (const Input& input : inputs) {
    AllReduceCall own = call;
    own.gradients = input.gradients;
    NF_RETURN_IF_ERROR(input.part->set_call(own, input.shards, input.firsts));
    if (!input.gradients.empty()) parts_.push_back(input.part);
  }
  if (transport_.ranks() == 1 || parts_.empty()) return {};
  Status status = reserve(stream);
  if (status.ok()) {
    status = sum(stream);
    if (!status.ok()) {
      static_cast<void>(pipeline_.wait_for_exchanges(stream));
      transport_.abort(status);
    }
  }
  for (DeviceExchangePart* part : parts_) {
    const Status released = part->release(stream);
    if (status.ok()) status = released;
  }
  return status;
}

Status DeviceExchange::reserve(cudaStream_t stream) {
  tiles_ = 1;
  for (DeviceExchangePart* part : parts_) {
    NF_RETURN_IF_ERROR(part->reserve(stream));
    tiles_ = std::max(tiles_, part->tiles());
  }
  return pipeline_.reserve(tiles_);
}

Status DeviceExchange::sum(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(exchange_statistics(stream));
  for (DeviceExchangePart* part : parts_) NF_RETURN_IF_ERROR(part->make_plan(stream));
  NF_RETURN_IF_ERROR(run_tiles(stream));
  for (DeviceExchangePart* part : parts_) NF_RETURN_IF_ERROR(part->store(stream));
  return {};
}

Status DeviceExchange::exchange_statistics(cudaStream_t stream) {
  transfers_.clear();
  for (DeviceExchangePart* part : parts_) {
    NF_RETURN_IF_ERROR(part->compute_statistics(stream));
    part->add_statistics(transfers_);
  }
  NF_RETURN_IF_ERROR(exchange(stream));
  transfers_.clear();
  for (DeviceExchangePart* part : parts_) {
    NF_RETURN_IF_ERROR(part->combine_statistics(stream));
    part->add_combined_statistics(transfers_);
  }
  return exchange(stream);
}

Status DeviceExchange::run_tiles(cudaStream_t stream) {
  return pipeline_.run(
      tiles_, parts_.front()->rounds(), stream,
      [&](std::uint32_t tile, std::size_t round) -> Status {
        for (DeviceExchangePart* part : parts_) {
          NF_RETURN_IF_ERROR(part->compute(tile, round, stream));
        }
        return {};
      },
      [&](std::uint32_t tile, std::size_t round, cudaStream_t wire) {
        transfers_.clear();
        for (DeviceExchangePart* part : parts_) part->add_transfers(tile, round, transfers_);
        return transport_.exchange(transfers_.sends, transfers_.receives, wire);
      });
}

// Some codecs have no statistics.
Status DeviceExchange::exchange(cudaStream_t stream) {
  if (transfers_.sends.empty()) return {};
  return transport_.exchange(transfers_.sends, transfers_.receives, stream);
}

}  // namespace nf::cuda
