#include "runtime/host_path.h"

#include <cstring>

#include "runtime/host_probe.h"
#include "runtime/scale.h"

namespace nf {

HostPath::HostPath(Transport& transport, DenseEngine& engine, const PathRequest& request)
    : transport_(transport),
      engine_(engine),
      binding_(request.binding),
      timeout_(request.options.timeout),
      sums_(transport, request.binding,
            {.topology = request.topology,
             .host_group_size = request.options.host_group_size,
             .seed = request.options.seed,
             .timeout = request.options.timeout,
             .checksum = request.options.checksum},
            request.options.shared_reducer, request.options.record_lines),
      route_errors_(request.binding, request.options.seed, transport.rank()) {}

Status HostPath::begin(PlannedSum& sum) {
  if (sum.step().is_monitored) sample(sum);
  scale(sum.bucket().values, static_cast<float>(1.0 / transport_.ranks()));
  const std::size_t count = sum.gathered_count();
  if (count == 0) return {};
  const DataType type = sum.bucket().values.type;
  auto room = std::make_shared<std::vector<std::byte>>(count * size_of(type));
  NF_RETURN_IF_ERROR(sum.for_each_run(room->data(), [](auto* own, auto* gathered, auto size) {
    std::memcpy(gathered, own, size);
    return Status();
  }));
  sum.set_gathered({room->data(), count, type}, room);
  return {};
}

void HostPath::sample(PlannedSum& sum) {
  TrainingStep& step = sum.step();
  for (const BucketSlot& slot : sum.bucket().slots) {
    const std::uint32_t region = binding_.region_of(slot.parameter);
    const std::string& route = step.wanted[region];
    const Piece piece = route_errors_.sample(step.statistics.step, slot.parameter, route);
    if (piece.count == 0 || piece.first + piece.count > slot.count) continue;
    const RouteSample measured =
        route_errors_.measure(step.statistics.step, slot.parameter, route,
                              sum.values(slot.offset + piece.first, piece.count));
    step.local.samples[region].error_energy += measured.error_energy;
    step.local.samples[region].energy += measured.energy;
  }
}

Status HostPath::finish(PlannedSum& sum) {
  if (sum.gathered_count() > 0) {
    NF_RETURN_IF_ERROR(sum.for_each_run(sum.dense().data, [](auto* own, auto* gathered, auto size) {
      std::memcpy(own, gathered, size);
      return Status();
    }));
  }
  if (!sum.step().is_monitored) return {};
  for (const BucketSlot& slot : in_parameter_order(sum.bucket().slots)) {
    const GradientNorm norm = gradient_norm(sum.values(slot.offset, slot.count));
    GradientNorm& region = sum.norms()[binding_.region_of(slot.parameter)];
    region.energy += norm.energy;
    region.non_finite += norm.non_finite;
  }
  return {};
}

std::unique_ptr<Probe> HostPath::probe() {
  return std::make_unique<HostProbe>(transport_, engine_, sums_, timeout_);
}

}  // namespace nf
