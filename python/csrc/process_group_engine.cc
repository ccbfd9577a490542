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

c10::intrusive_ptr<c10d::Work> reduce_scatter_rows(c10d::ProcessGroup& group, at::Tensor rows,
                                                   Reduction reduction,
                                                   std::chrono::milliseconds timeout) {
  const auto op = reduction == Reduction::kMean ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
  const c10::Device device = rows.device();
  if (device.is_cpu() || group.getBackend(device.type())->getBackendName() == "gloo") {
    std::vector<at::Tensor> tensors{rows};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    options.timeout = timeout;
    return group.allreduce(tensors, options);
  }
  c10d::ReduceScatterOptions options;
  options.reduceOp = op;
  options.timeout = timeout;
  at::Tensor own = rows.view({group.getSize(), -1}).select(0, group.getRank());
  return group._reduce_scatter_base(own, rows, options);
}

at::Tensor ProcessGroupEngine::tensor_of(Values values) const {
  const c10::Device device = stream_ ? stream_->device() : c10::Device(c10::kCPU);
  return at::from_blob(values.data, {static_cast<std::int64_t>(values.count)},
                       at::TensorOptions().dtype(type_of(values.type)).device(device));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupEngine::start(Values values) {
  std::vector<at::Tensor> tensors{tensor_of(values)};
  c10d::AllreduceOptions options;
  options.timeout = std::chrono::ceil<std::chrono::milliseconds>(timeout_);
  return group_->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupEngine::start_reduce_scatter(Values rows,
                                                                        Reduction reduction) {
  return reduce_scatter_rows(*group_, tensor_of(rows), reduction,
                             std::chrono::ceil<std::chrono::milliseconds>(timeout_));
}

template <typename Start>
Status ProcessGroupEngine::wait(Start start) {
  try {
    const c10::OptionalStreamGuard guard(stream_);
    start()->wait();
  } catch (const std::exception& error) {
    return {ErrorCode::kPeerLost, error.what()};
  }
  return {};
}

Status ProcessGroupEngine::sum(Values values) {
  if (values.count == 0) return {};
  return wait([&] { return start(values); });
}

Status ProcessGroupEngine::reduce_scatter(Values rows, Reduction reduction) {
  if (rows.count == 0) return {};
  return wait([&] { return start_reduce_scatter(rows, reduction); });
}

void ProcessGroupEngine::abort() {
  try {
    if (stream_) group_->getBackend(stream_->device_type())->abort();
  } catch (const std::exception&) {
    // The group has no such backend, or it has been shut down already.
  }
}

}  // namespace nf::torch_front
