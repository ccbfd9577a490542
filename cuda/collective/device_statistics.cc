#include "cuda/collective/device_statistics.h"

#include <algorithm>

#include "cuda/base/launch.h"

namespace nf::cuda {

Status DeviceStatistics::reserve(const DevicePlan& plan, const DeviceCodec& codec,
                                 cudaStream_t stream) {
  const std::size_t size = scratch_at(plan) + codec.statistics_scratch_size(plan.whole());
  return buffer_.reserve(std::max<std::size_t>(size, 1), stream);
}

Status DeviceStatistics::compute(const DevicePlan& plan, const CallDraws& draws,
                                 const DeviceCodec& codec, cudaStream_t stream) {
  if (plan.statistics_size() == 0) return {};
  const DevicePlan::Part& part = plan.part(rank_);
  std::byte* const own = buffer_.data();
  NF_RETURN_IF_ERROR(codec.statistics(draws.of(plan.whole()), own, own + scratch_at(plan), stream));
  return copy_on_device(own + all_at(plan) + rank_ * part.size, own + part.first, part.size,
                        stream);
}

void DeviceStatistics::add_transfers(const DevicePlan& plan, StreamTransfers& transfers) {
  if (plan.statistics_size() == 0) return;
  std::byte* const own = buffer_.data();
  std::byte* const all = own + all_at(plan);
  const std::size_t size = plan.part(rank_).size;
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    const DevicePlan::Part& theirs = plan.part(peer);
    transfers.sends.push_back({peer, own + theirs.first, theirs.size});
    transfers.receives.push_back({peer, all + peer * size, size});
    bytes_sent_ += theirs.size;
  }
}

Status DeviceStatistics::combine(const DevicePlan& plan, const DeviceCodec& codec,
                                 cudaStream_t stream) {
  if (plan.statistics_size() == 0) return {};
  const DevicePlan::Part& part = plan.part(rank_);
  return codec.combine_statistics(part.batch, ranks_, buffer_.data() + all_at(plan), part.size,
                                  plan.statistics() + part.first, stream);
}

void DeviceStatistics::add_combined_transfers(const DevicePlan& plan, StreamTransfers& transfers) {
  if (plan.statistics_size() == 0) return;
  const DevicePlan::Part& part = plan.part(rank_);
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    const DevicePlan::Part& theirs = plan.part(peer);
    transfers.sends.push_back({peer, plan.statistics() + part.first, part.size});
    transfers.receives.push_back({peer, plan.statistics() + theirs.first, theirs.size});
    bytes_sent_ += part.size;
  }
}

}  // namespace nf::cuda
