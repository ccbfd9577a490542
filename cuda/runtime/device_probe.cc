#include "cuda/runtime/device_probe.h"

#include <utility>

#include "cuda/base/launch.h"
#include "runtime/host_probe.h"

namespace nf::cuda {
namespace {

// Large enough to outweigh kernel launches, and a few milliseconds on a slow link.
constexpr ParameterShape kShape = {.count = 4 << 20, .rows = 2 << 10};

std::uint64_t probe_key() { return parameter_key("neuron_fabric.probe"); }

}  // namespace

DeviceProbe::DeviceProbe(const DeviceContext& context, DeviceAllocator& allocator,
                         FindCollective find)
    : context_(context),
      find_(std::move(find)),
      sent_(allocator),
      received_(allocator),
      values_(allocator) {}

DeviceProbe::~DeviceProbe() {
  static_cast<void>(cudaStreamSynchronize(context_.engine_stream));
  static_cast<void>(cudaStreamSynchronize(context_.stream));
  for (DeviceCollective* sum : used_) sum->forget(probe_key());
}

ParameterShape DeviceProbe::shape() const { return kShape; }

Status DeviceProbe::wait_for(cudaStream_t stream) {
  return wait(context_, 0, [stream] { return cudaStreamQuery(stream); });
}

Status DeviceProbe::shift(std::size_t bytes) {
  NF_RETURN_IF_ERROR(sent_.reserve(bytes, context_.stream));
  NF_RETURN_IF_ERROR(received_.reserve(bytes, context_.stream));
  StreamTransport& transport = context_.channels.front().transport;
  const std::uint32_t ranks = transport.ranks();
  const StreamTransfer send{(transport.rank() + 1) % ranks, sent_.data(), bytes};
  const StreamTransfer receive{(transport.rank() + ranks - 1) % ranks, received_.data(), bytes};
  NF_RETURN_IF_ERROR(transport.exchange({&send, 1}, {&receive, 1}, context_.stream));
  return wait_for(context_.stream);
}

Status DeviceProbe::sum_dense(std::size_t bytes) {
  NF_RETURN_IF_ERROR(sent_.reserve(bytes, context_.engine_stream));
  NF_RETURN_IF_ERROR(to_status(cudaMemsetAsync(sent_.data(), 0, bytes, context_.engine_stream),
                               "clearing the values of a probe"));
  NF_RETURN_IF_ERROR(
      context_.engine.sum(Values(sent_.data(), bytes / sizeof(float), DataType::kFloat32)));
  return wait_for(context_.engine_stream);
}

Status DeviceProbe::sum_low_bit(const std::string& route, std::uint64_t step) {
  const Expected<DeviceCollective*> sum = find_(route);
  if (!sum) return sum.status();
  used_.insert(*sum);
  if (values_.size() == 0) {
    const std::vector<float> made = probe_values(kShape.count, context_.rank());
    NF_RETURN_IF_ERROR(values_.reserve(made.size() * sizeof(float), context_.stream));
    NF_RETURN_IF_ERROR(to_status(cudaMemcpyAsync(values_.data(), made.data(), values_.size(),
                                                 cudaMemcpyHostToDevice, context_.stream),
                                 "copying the values of a probe"));
  }
  const Gradient gradient{.parameter = probe_key(),
                          .values = Values(values_.data(), kShape.count, DataType::kFloat32),
                          .rows = kShape.rows};
  NF_RETURN_IF_ERROR((*sum)->enqueue({.step = step, .gradients = {&gradient, 1}}, context_.stream));
  return wait_for(context_.stream);
}

}  // namespace nf::cuda
