#include "process_group_engine.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

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

c10::intrusive_ptr<c10d::Work> ProcessGroupEngine::start(Values values) {
  const c10::Device device = stream_ ? stream_->device() : c10::Device(c10::kCPU);
  std::vector<at::Tensor> tensors{
      at::from_blob(values.data, {static_cast<std::int64_t>(values.count)},
                    at::TensorOptions().dtype(type_of(values.type)).device(device))};
  c10d::AllreduceOptions options;
  options.timeout = std::chrono::ceil<std::chrono::milliseconds>(timeout_);
  return group_->allreduce(tensors, options);
}

Status ProcessGroupEngine::sum(Values values) {
  if (values.count == 0) return {};
  try {
    const c10::OptionalStreamGuard guard(stream_);
    start(values)->wait();  // with a stream: the stream waits
  } catch (const std::exception& error) {
    return {ErrorCode::kPeerLost, error.what()};
  }
  return {};
}

void ProcessGroupEngine::abort() {
  try {
    if (stream_) group_->getBackend(stream_->device_type())->abort();
  } catch (const std::exception&) {
    // The group has no such backend, or it has been shut down already.
  }
}

}  // namespace nf::torch_front
