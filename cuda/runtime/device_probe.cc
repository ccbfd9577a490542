#include "cuda/runtime/device_probe.h"

#include <algorithm>
#include <utility>

#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

// Large enough to outweigh kernel launches, and a few milliseconds on a slow link.
constexpr ParameterShape kShape = {.count = 4 << 20, .rows = 2 << 10};

}  // namespace

DeviceProbe::DeviceProbe(const DeviceContext& context, DeviceAllocator& allocator,
                         Collective collective, FindCollective find)
    : context_(context),
      scatters_(collective == Collective::kReduceScatter),
      find_(std::move(find)),
      sent_(allocator),
      received_(allocator),
      values_(allocator) {}

DeviceProbe::~DeviceProbe() {
  static_cast<void>(cudaStreamSynchronize(context_.engine_stream));
  static_cast<void>(cudaStreamSynchronize(context_.stream));
  for (DeviceCollective* sum : used_) {
    for (const Gradient& gradient : call_->gradients) sum->forget(gradient.parameter);
  }
}

ProbeSize DeviceProbe::size() const { return {.shape = kShape}; }

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
  std::size_t count = bytes / sizeof(float);
  if (scatters_) {
    const std::uint32_t ranks = context_.ranks();
    count = std::max<std::size_t>(count / ranks, 1) * ranks;
  }
  NF_RETURN_IF_ERROR(sent_.reserve(count * sizeof(float), context_.engine_stream));
  NF_RETURN_IF_ERROR(
      to_status(cudaMemsetAsync(sent_.data(), 0, count * sizeof(float), context_.engine_stream),
                "clearing the values of a probe"));
  const Values values(sent_.data(), count, DataType::kFloat32);
  NF_RETURN_IF_ERROR(scatters_ ? context_.engine.reduce_scatter(values, Reduction::kSum)
                               : context_.engine.sum(values));
  return wait_for(context_.engine_stream);
}

Status DeviceProbe::sum_low_bit(const std::string& route, std::uint64_t step) {
  const Expected<DeviceCollective*> sum = find_(route);
  if (!sum) return sum.status();
  if (!call_) NF_RETURN_IF_ERROR(make_call());
  used_.insert(*sum);
  NF_RETURN_IF_ERROR((*sum)->enqueue({.step = step, .gradients = call_->gradients}, call_->shards,
                                     context_.stream));
  return wait_for(context_.stream);
}

Status DeviceProbe::make_call() {
  const std::vector<float> made = probe_values(kShape.count, context_.rank());
  NF_RETURN_IF_ERROR(values_.reserve(made.size() * sizeof(float), context_.stream));
  NF_RETURN_IF_ERROR(to_status(cudaMemcpyAsync(values_.data(), made.data(), values_.size(),
                                               cudaMemcpyHostToDevice, context_.stream),
                               "copying the values of a probe"));
  call_.emplace(Values(values_.data(), kShape.count, DataType::kFloat32), kShape.rows,
                context_.ranks(), scatters_);
  return {};
}

}  // namespace nf::cuda
