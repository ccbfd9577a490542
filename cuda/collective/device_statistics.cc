#include "cuda/collective/device_statistics.h"

#include <algorithm>

#include "cuda/base/launch.h"

namespace nf::cuda {

Status DeviceStatistics::reserve(const DevicePlan& plan, const DeviceCodec& codec,
                                 cudaStream_t stream) {
  const std::size_t size = scratch_at(plan) + codec.statistics_scratch_size(plan.whole());
  return buffer_.reserve(std::max<std::size_t>(size, 1), stream);
}

Status DeviceStatistics::exchange(const DevicePlan& plan, const CallDraws& draws,
                                  const DeviceCodec& codec, cudaStream_t stream) {
  if (plan.statistics_size() == 0) return {};
  const std::uint32_t rank = transport_.rank();
  const DevicePlan::Part& part = plan.part(rank);
  std::byte* const own = buffer_.data();
  std::byte* const all = own + all_at(plan);
  NF_RETURN_IF_ERROR(codec.statistics(draws.of(plan.whole()), own, own + scratch_at(plan), stream));
  NF_RETURN_IF_ERROR(copy_on_device(all + rank * part.size, own + part.first, part.size, stream));

  sends_.clear();
  receives_.clear();
  for (std::uint32_t peer = 0; peer < transport_.ranks(); ++peer) {
    if (peer == rank) continue;
    const DevicePlan::Part& theirs = plan.part(peer);
    sends_.push_back({peer, own + theirs.first, theirs.size});
    receives_.push_back({peer, all + peer * part.size, part.size});
    bytes_sent_ += theirs.size + part.size;
  }
  NF_RETURN_IF_ERROR(transport_.exchange(sends_, receives_, stream));
  std::byte* const combined = plan.statistics();
  NF_RETURN_IF_ERROR(codec.combine_statistics(part.batch, transport_.ranks(), all, part.size,
                                              combined + part.first, stream));
  sends_.clear();
  receives_.clear();
  for (std::uint32_t peer = 0; peer < transport_.ranks(); ++peer) {
    if (peer == rank) continue;
    const DevicePlan::Part& theirs = plan.part(peer);
    sends_.push_back({peer, combined + part.first, part.size});
    receives_.push_back({peer, combined + theirs.first, theirs.size});
  }
  return transport_.exchange(sends_, receives_, stream);
}

}  // namespace nf::cuda
