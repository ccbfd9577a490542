#include "runtime/host_probe.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "neuron_fabric/reduce_scatter.h"

namespace nf {

std::vector<float> probe_values(std::size_t count, std::uint32_t rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761u + rank);
    values[i] = static_cast<float>(mixed & 0xffffu) - static_cast<float>(mixed >> 16);
  }
  return values;
}

ProbeCall::ProbeCall(Values values, std::size_t rows, std::uint32_t ranks, bool scatters) {
  const std::uint64_t key = parameter_key("neuron_fabric.probe");
  if (!scatters) {
    gradients.push_back({.parameter = key, .values = values, .rows = rows});
    return;
  }
  shards.assign(ranks, 1);
  auto* at = static_cast<std::byte*>(values.data);
  const std::size_t count = values.count / ranks;
  for (std::uint32_t owner = 0; owner < ranks; ++owner, at += count * size_of(values.type)) {
    gradients.push_back(
        {.parameter = shard_key(key, owner), .values = Values(at, count, values.type)});
  }
}

HostProbe::HostProbe(Transport& transport, DenseEngine& engine, RouteCollectives& collectives,
                     Collective collective, Duration timeout, ProbeSize size)
    : transport_(transport),
      engine_(engine),
      collectives_(collectives),
      scatters_(collective == Collective::kReduceScatter && transport.ranks() > 1),
      timeout_(timeout),
      size_(size),
      values_(probe_values(size.shape.count, transport.rank())) {}

HostProbe::~HostProbe() {
  for (const std::string& route : used_) collectives_.reset(route);
}

Status HostProbe::shift(std::size_t bytes) {
  const std::uint32_t ranks = transport_.ranks();
  sent_.resize(bytes / sizeof(float));
  received_.resize(bytes / sizeof(float));
  Transfer send{.peer = (transport_.rank() + 1) % ranks,
                .bytes = std::as_writable_bytes(std::span(sent_))};
  Transfer receive{.peer = (transport_.rank() + ranks - 1) % ranks,
                   .bytes = std::as_writable_bytes(std::span(received_))};
  Status status = transport_.receive(receive);
  if (status.ok()) status = transport_.send(send);
  while (status.ok() && !(send.is_done && receive.is_done)) {
    status = transport_.wait(transport_.now() + timeout_);
  }
  // The transfers go out of scope: the transport must not write to them any more.
  if (!status.ok()) transport_.abort(status);
  return status;
}

Status HostProbe::sum_dense(std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  if (!scatters_) {
    sent_.assign(count, 0.0f);
    return engine_.sum(Values(sent_));
  }
  const std::size_t row_size = std::max<std::size_t>(count / transport_.ranks(), 1);
  sent_.assign(row_size * transport_.ranks(), 0.0f);
  return engine_.reduce_scatter(Values(sent_), Reduction::kSum);
}

Status HostProbe::sum_low_bit(const std::string& route, std::uint64_t step) {
  used_.insert(route);
  const ProbeCall call(Values(values_), size_.shape.rows, transport_.ranks(), scatters_);
  return collectives_.run(route, {.step = step, .gradients = call.gradients}, call.shards);
}

}  // namespace nf
