#include "runtime/host_path.h"

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/host_probe.h"
#include "runtime/scale.h"

namespace nf {

MakePath host_path(Transport& transport, DenseEngine& engine, MemorySideReducer reducer) {
  return [&transport, &engine, reducer = std::move(reducer)](const PathRequest& request) {
    return Expected<std::unique_ptr<BucketPath>>(
        std::make_unique<HostPath>(transport, engine, request, reducer));
  };
}

HostPath::HostPath(Transport& transport, DenseEngine& engine, const PathRequest& request,
                   MemorySideReducer reducer)
    : BucketPath(engine, /*is_asynchronous=*/false),
      transport_(transport),
      binding_(request.binding),
      timeout_(request.options.timeout),
      collectives_(transport, request.binding,
                   {.topology = request.topology,
                    .host_group_size = request.options.host_group_size,
                    .seed = request.options.seed,
                    .timeout = request.options.timeout,
                    .checksum = request.options.checksum},
                   std::move(reducer)),
      route_errors_(request.binding, request.options.seed, transport.rank()) {}

Status HostPath::begin(BucketWork& work) {
  if (work.step().is_monitored) sample(work);
  if (work.bucket().reduction == Reduction::kMean) {
    scale(work.bucket().values, static_cast<float>(1.0 / transport_.ranks()));
  }
  const std::size_t count = work.gathered_count();
  if (count == 0) return {};
  const DataType type = work.bucket().values.type;
  auto buffer = std::make_shared<std::vector<std::byte>>(count * size_of(type));
  NF_RETURN_IF_ERROR(work.for_each_run(buffer->data(), [](auto* own, auto* gathered, auto size) {
    std::memcpy(gathered, own, size);
    return Status();
  }));
  work.set_gathered({buffer->data(), count, type}, buffer);
  return {};
}

void HostPath::sample(BucketWork& work) {
  TrainingStep& step = work.step();
  for (const BucketSlot& slot : work.bucket().slots) {
    const std::uint32_t region = binding_.region_of(slot.parameter);
    const std::string& route = step.wanted[region];
    const Piece piece = route_errors_.sample(step.statistics.step, slot.parameter, route);
    if (piece.count == 0 || piece.first + piece.count > slot.count) continue;
    const RouteSample measured =
        route_errors_.measure(step.statistics.step, slot.parameter, route,
                              work.values(slot.offset + piece.first, piece.count));
    step.local.samples[region].error_energy += measured.error_energy;
    step.local.samples[region].energy += measured.energy;
  }
}

Status HostPath::finish(BucketWork& work) {
  if (work.gathered_count() > 0) {
    NF_RETURN_IF_ERROR(
        work.for_each_run(work.dense().data, [](auto* own, auto* gathered, auto size) {
          std::memcpy(own, gathered, size);
          return Status();
        }));
  }
  if (!work.step().is_monitored) return {};
  for (const BucketSlot& slot : in_parameter_order(work.bucket().slots)) {
    const GradientNorm norm = gradient_norm(work.values(slot.offset, slot.count));
    GradientNorm& region = work.norms()[binding_.region_of(slot.parameter)];
    region.energy += norm.energy;
    region.non_finite += norm.non_finite;
  }
  return {};
}

std::unique_ptr<Probe> HostPath::probe() {
  return std::make_unique<HostProbe>(transport_, engine(), collectives_, timeout_);
}

}  // namespace nf
