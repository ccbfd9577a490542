#include "cuda/collective/device_collective.h"

#include <utility>

#include "collective/route_memory.h"
#include "cuda/collective/device_all_reduce.h"
#include "cuda/collective/device_hierarchy.h"
#include "cuda/collective/device_low_rank.h"

namespace nf::cuda {

Status check_device_collective(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  if (is_low_rank(options.codec)) return DeviceLowRank::check(options, ranks);
  return options.topology == Topology::kHierarchical ? DeviceHierarchy::check(options, ranks)
                                                     : DeviceAllReduce::check(options, ranks);
}

Expected<std::unique_ptr<DeviceCollective>> make_device_collective(
    StreamTransport& transport, const DeviceAllReduceOptions& options, RouteMemory* memory) {
  if (is_low_rank(options.codec)) {
    auto* own = dynamic_cast<LowRankMemory*>(memory);
    if (own == nullptr)
      return Status(ErrorCode::kInvalidArgument, "powersgd needs its route memory");
    return DeviceLowRank::create(transport, options, *own);
  }
  if (options.topology == Topology::kHierarchical) {
    return DeviceHierarchy::create(transport, options);
  }
  Expected<std::unique_ptr<DeviceAllReduce>> made =
      DeviceAllReduce::create(transport, options, dynamic_cast<ResidualMemory*>(memory));
  if (!made) return made.status();
  return std::unique_ptr<DeviceCollective>(std::move(*made));
}

}  // namespace nf::cuda
