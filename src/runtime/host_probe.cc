#include "runtime/host_probe.h"

#include <span>

namespace nf {

std::vector<float> probe_values(std::size_t count, std::uint32_t rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761u + rank);
    values[i] = static_cast<float>(mixed & 0xffffu) - static_cast<float>(mixed >> 16);
  }
  return values;
}

HostProbe::HostProbe(Transport& transport, DenseEngine& engine, RouteCollectives& collectives,
                     Duration timeout)
    : transport_(transport),
      engine_(engine),
      collectives_(collectives),
      timeout_(timeout),
      values_(probe_values(kShape.count, transport.rank())) {}

HostProbe::~HostProbe() {
  for (AllReduce* sum : used_) sum->reset();
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
  sent_.assign(bytes / sizeof(float), 0.0f);
  return engine_.sum(Values(sent_));
}

Status HostProbe::sum_low_bit(const std::string& route, std::uint64_t step) {
  const Expected<AllReduce*> sum = collectives_.find(route);
  if (!sum) return sum.status();
  used_.insert(*sum);
  const Gradient gradient{.parameter = parameter_key("neuron_fabric.probe"),
                          .values = Values(values_),
                          .rows = kShape.rows};
  return (*sum)->run({.step = step, .gradients = std::span(&gradient, 1)});
}

}  // namespace nf
