#include "engine.h"

#include <ATen/ATen.h>

namespace nf::torch_front {
namespace {

at::ScalarType type_of(DataType type) {
  switch (type) {
    case DataType::kFloat32: return at::kFloat;
    case DataType::kBfloat16: return at::kBFloat16;
    case DataType::kFloat16: return at::kHalf;
  }
  return at::kFloat;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> Engine::start(Values values) {
  std::vector<at::Tensor> tensors{
      at::from_blob(values.data, {static_cast<std::int64_t>(values.count)}, type_of(values.type))};
  c10d::AllreduceOptions options;
  options.timeout = std::chrono::ceil<std::chrono::milliseconds>(timeout_);
  return group_->allreduce(tensors, options);
}

Status Engine::sum(Values values) {
  if (values.count == 0) return {};
  try {
    start(values)->wait();
  } catch (const std::exception& error) {
    return {ErrorCode::kPeerLost, error.what()};
  }
  return {};
}

}  // namespace nf::torch_front
