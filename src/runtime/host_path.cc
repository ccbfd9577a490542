#include "runtime/host_path.h"

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/scale.h"

namespace nf {

MakePath host_path(Transport& transport, DenseEngine& engine, MemorySideReducer reducer,
                   ProbeSize probe_size) {
  return
      [&transport, &engine, reducer = std::move(reducer), probe_size](const PathRequest& request) {
        return Expected<std::unique_ptr<BucketPath>>(
            std::make_unique<HostPath>(transport, engine, request, reducer, probe_size));
      };
}

HostPath::HostPath(Transport& transport, DenseEngine& engine, const PathRequest& request,
                   MemorySideReducer reducer, ProbeSize probe_size)
    : BucketPath(engine, /*is_asynchronous=*/false),
      transport_(transport),
      binding_(request.binding),
      collective_(request.options.collective),
      timeout_(request.options.timeout),
      probe_size_(probe_size),
      collectives_(transport, request.binding, collective_,
                   {.topology = request.topology,
                    .host_group_size = request.options.host_group_size,
                    .seed = request.options.seed,
                    .timeout = request.options.timeout,
                    .checksum = request.options.checksum},
                   std::move(reducer)),
      route_errors_(request.binding, request.options.seed, transport.rank()) {}

Status HostPath::begin(BucketWork& work) {
  if (work.step().is_monitored) NF_RETURN_IF_ERROR(sample(work));
  if (work.divides_before_sum()) {
    scale(work.bucket().values, static_cast<float>(1.0 / transport_.ranks()));
  }
  const std::size_t count = work.gathered_count();
  if (count == 0 || work.joins_dense()) return {};
  const DataType type = work.bucket().values.type;
  // Zero: in a reduce-scatter, shorter rows leave gaps.
  auto buffer = std::make_shared<std::vector<std::byte>>(count * size_of(type));
  NF_RETURN_IF_ERROR(work.for_each_run(buffer->data(), [](auto* own, auto* gathered, auto size) {
    std::memcpy(gathered, own, size);
    return Status();
  }));
  work.set_gathered({buffer->data(), count, type}, buffer);
  return {};
}

Status HostPath::sample(BucketWork& work) {
  TrainingStep& step = work.step();
  return route_errors_.for_each_sample(work, [&](std::uint32_t parameter, Values values) {
    const std::uint32_t region = binding_.region_of(parameter);
    const RouteSample measured =
        route_errors_.measure(step.statistics.step, parameter, step.wanted[region], values);
    step.local.samples[region].error_energy += measured.error_energy;
    step.local.samples[region].energy += measured.energy;
    return Status();
  });
}

Status HostPath::finish(BucketWork& work) {
  if (work.gathered_count() > 0 && !work.joins_dense()) {
    NF_RETURN_IF_ERROR(
        work.for_each_result_run(work.dense().data, [](auto* own, auto* gathered, auto size) {
          std::memcpy(own, gathered, size);
          return Status();
        }));
  }
  if (work.divides_after_sum()) {
    scale(work.result(), static_cast<float>(1.0 / transport_.ranks()));
  }
  if (!work.step().is_monitored) return {};
  for (const BucketSlot& slot : work.result_slots()) {
    const GradientNorm norm = gradient_norm(work.values(slot.offset, slot.count));
    GradientNorm& region = work.norms()[binding_.region_of(slot.parameter)];
    region.energy += norm.energy;
    region.non_finite += norm.non_finite;
  }
  return {};
}

std::unique_ptr<Probe> HostPath::probe() {
  return std::make_unique<HostProbe>(transport_, engine(), collectives_, collective_, timeout_,
                                     probe_size_);
}

}  // namespace nf
