#include "source_bucket.h"

namespace nf::torch_front {

std::optional<DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DataType::kFloat32;
    case at::kBFloat16: return DataType::kBfloat16;
    case at::kHalf: return DataType::kFloat16;
    default: return std::nullopt;
  }
}

Bucket core_bucket(const SourceBucket& bucket, const at::Tensor& values) {
  Bucket result{.index = static_cast<std::uint32_t>(bucket.index),
                .is_last = bucket.is_last,
                .reduction = bucket.reduction};
  if (!bucket.slots) return result;
  result.values = Values(values.data_ptr(), static_cast<std::size_t>(values.numel()),
                         *data_type(values.scalar_type()));
  result.slots = *bucket.slots;
  return result;
}

}  // namespace nf::torch_front
