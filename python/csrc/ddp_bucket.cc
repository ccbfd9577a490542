#include "ddp_bucket.h"

#include <c10/util/StringUtil.h>

#include <utility>
#include <vector>

namespace nf::torch_front {
namespace {

bool has_route(const c10d::GradBucket& bucket) {
  const at::Tensor& buffer = bucket.getBuffer();
  if (buffer.is_sparse() || !data_type(buffer.scalar_type())) return false;
  // The buffer of complex gradients holds pairs of real values.
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  return parameters.empty() || !parameters.front().is_complex();
}

}  // namespace

SourceBucket ddp_bucket(const Model& model, c10d::GradBucket& bucket) {
  const at::Tensor& buffer = bucket.getBuffer();
  SourceBucket result{.buffer = buffer, .index = bucket.getIndex(), .is_last = bucket.isLast()};
  if (!has_route(bucket)) return result;
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  const std::vector<at::Tensor> gradients = bucket.getGradients();
  std::vector<BucketSlot> slots;
  slots.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::optional<std::uint32_t> parameter = model.find(parameters[i]);
    if (!parameter) {
      result.validity = {
          ErrorCode::kInvalidArgument,
          c10::str("bucket ", bucket.getIndex(), " holds a parameter of shape ",
                   parameters[i].sizes(),
                   " that the model did not have when it was attached; wrap the model in a new "
                   "DistributedDataParallel and attach to that")};
      return result;
    }
    slots.push_back({.parameter = *parameter,
                     .offset = static_cast<std::size_t>(gradients[i].storage_offset() -
                                                        buffer.storage_offset()),
                     .count = static_cast<std::size_t>(gradients[i].numel())});
  }
  result.slots = std::move(slots);
  return result;
}

}  // namespace nf::torch_front
