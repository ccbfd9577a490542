// The parameters of one model, by tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "neuron_fabric/binding.h"

namespace nf::torch_front {

class Model {
 public:
  // Parallel arrays. Keeps the tensors alive, so that their addresses stay unique.
  Model(std::vector<std::string> names, std::vector<std::string> module_types,
        std::vector<at::Tensor> tensors);

  std::vector<ModelParameter> parameters() const;
  // The index of a parameter; nullopt if it does not belong to the model.
  std::optional<std::uint32_t> find(const at::Tensor& parameter) const;
  // All parameters are on one device.
  c10::Device device() const {
    return tensors_.empty() ? c10::Device(c10::kCPU) : tensors_.front().device();
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::string> module_types_;
  std::vector<at::Tensor> tensors_;
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> index_;
};

}  // namespace nf::torch_front
