#include "cuda/runtime/step_reading.h"

#include "cuda/base/launch.h"

namespace nf::cuda {

Status StepReading::begin(std::uint32_t regions, std::size_t sample_bytes, cudaStream_t stream) {
  regions_ = regions;
  sample_bytes_ = sample_bytes;
  samples_.clear();
  used_buckets_ = 0;
  used_collectives_ = 0;
  const std::size_t size = regions * sizeof(DeviceNorm);
  NF_RETURN_IF_ERROR(norms_.reserve(size, stream));
  NF_RETURN_IF_ERROR(pinned_norms_.reserve(size));
  NF_RETURN_IF_ERROR(pinned_samples_.reserve(regions * sample_bytes));
  return to_status(cudaMemsetAsync(norms_.data(), 0, size, stream), "clearing norms");
}

BucketEvents& StepReading::add_bucket() {
  if (used_buckets_ == buckets_.size()) buckets_.emplace_back();
  return buckets_[used_buckets_++];
}

CollectiveTimes& StepReading::add_collective() {
  if (used_collectives_ == collectives_.size()) collectives_.emplace_back();
  collectives_[used_collectives_].shares.clear();
  return collectives_[used_collectives_++];
}

Status StepReading::add_sample(std::uint32_t parameter, ConstValues values, cudaStream_t stream) {
  const std::size_t size = values.count * size_of(values.type);
  if (size > sample_bytes_ || samples_.size() == regions_) return {};
  std::byte* to = pinned_samples_.data() + samples_.size() * sample_bytes_;
  samples_.push_back({parameter, ConstValues(to, values.count, values.type)});
  return to_status(cudaMemcpyAsync(to, values.data, size, cudaMemcpyDeviceToHost, stream),
                   "copying a sample");
}

Status StepReading::end(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(
      to_status(cudaMemcpyAsync(pinned_norms_.data(), norms_.data(), regions_ * sizeof(DeviceNorm),
                                cudaMemcpyDeviceToHost, stream),
                "copying norms"));
  return end_.record(stream);
}

std::span<const DeviceNorm> StepReading::read_norms() const {
  return {reinterpret_cast<const DeviceNorm*>(pinned_norms_.data()), regions_};
}

}  // namespace nf::cuda
