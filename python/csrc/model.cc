#include "model.h"

#include <utility>

namespace nf::torch_front {
namespace {

DataType type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DataType::kFloat32;
    case at::kBFloat16: return DataType::kBfloat16;
    case at::kHalf: return DataType::kFloat16;
    default:
      TORCH_CHECK(false, "neuron_fabric: gradients of type ", tensor.scalar_type(),
                  " are not supported; float32, bfloat16 and float16 are");
  }
}

}  // namespace

Model::Model(std::vector<std::string> names, std::vector<std::string> module_types,
             std::vector<at::Tensor> tensors)
    : names_(std::move(names)),
      module_types_(std::move(module_types)),
      tensors_(std::move(tensors)) {
  TORCH_CHECK(names_.size() == tensors_.size() && names_.size() == module_types_.size(),
              "neuron_fabric: ", names_.size(), " names for ", tensors_.size(), " parameters");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(tensors_[i].unsafeGetTensorImpl(), static_cast<std::uint32_t>(i));
  }
}

std::vector<ModelParameter> Model::parameters() const {
  std::vector<ModelParameter> parameters;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& tensor = tensors_[i];
    parameters.push_back(
        {.name = names_[i],
         .module_type = module_types_[i],
         .count = static_cast<std::size_t>(tensor.numel()),
         .rows = tensor.dim() >= 2 ? static_cast<std::size_t>(tensor.size(0)) : 0});
  }
  return parameters;
}

bool Model::has_route(const c10d::GradBucket& bucket) {
  const at::Tensor& buffer = bucket.getBuffer();
  const at::ScalarType type = buffer.scalar_type();
  if (buffer.is_sparse() || (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf)) {
    return false;
  }
  // The buffer of complex gradients holds pairs of real values.
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  return parameters.empty() || !parameters.front().is_complex();
}

Bucket Model::view(c10d::GradBucket& bucket, const at::Tensor& values) const {
  const at::Tensor& buffer = bucket.getBuffer();
  Bucket view{.index = static_cast<std::uint32_t>(bucket.getIndex()),
              .is_last = bucket.isLast(),
              .values = Values(values.data_ptr(), static_cast<std::size_t>(values.numel()),
                               type_of(values)),
              .slots = {}};
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  const std::vector<at::Tensor> gradients = bucket.getGradients();
  view.slots.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto known = index_.find(parameters[i].unsafeGetTensorImpl());
    TORCH_CHECK(known != index_.end(), "neuron_fabric: bucket ", bucket.getIndex(),
                " holds a parameter of shape ", parameters[i].sizes(),
                " that the model did not have when it was attached; wrap the model in a new "
                "DistributedDataParallel and attach to that");
    view.slots.push_back({.parameter = known->second,
                          .offset = static_cast<std::size_t>(gradients[i].storage_offset() -
                                                             buffer.storage_offset()),
                          .count = static_cast<std::size_t>(gradients[i].numel())});
  }
  return view;
}

}  // namespace nf::torch_front
