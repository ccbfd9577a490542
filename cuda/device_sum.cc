#include "cuda/device_sum.h"

#include <utility>

#include "collective/low_rank_all_reduce.h"
#include "cuda/device_all_reduce.h"
#include "cuda/device_hierarchy.h"
#include "cuda/device_low_rank.h"

namespace nf::cuda {

bool remembers(const std::string& codec) {
  const Expected<CodecSpec> spec = CodecSpec::parse(codec);
  return spec && spec->name == LowRankAllReduce::kName;
}

Status check_device_sum(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  if (remembers(options.codec)) return DeviceLowRank::check(options, ranks);
  return options.topology == Topology::kHierarchical ? DeviceHierarchy::check(options, ranks)
                                                     : DeviceAllReduce::check(options, ranks);
}

Expected<std::unique_ptr<DeviceSum>> make_device_sum(StreamTransport& transport,
                                                     const DeviceAllReduceOptions& options,
                                                     LowRankMemory* memory) {
  if (remembers(options.codec)) return DeviceLowRank::create(transport, options, *memory);
  if (options.topology == Topology::kHierarchical) {
    return DeviceHierarchy::create(transport, options);
  }
  Expected<std::unique_ptr<DeviceAllReduce>> made = DeviceAllReduce::create(transport, options);
  if (!made) return made.status();
  return std::unique_ptr<DeviceSum>(std::move(*made));
}

}  // namespace nf::cuda
