#include "model.h"

#include <c10/util/Exception.h>

#include <utility>

namespace nf::torch_front {

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

std::optional<std::uint32_t> Model::find(const at::Tensor& parameter) const {
  const auto known = index_.find(parameter.unsafeGetTensorImpl());
  return known == index_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace nf::torch_front
