// Maps tensors to parameters, and DDP's buckets to those of the core.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <string>
#include <unordered_map>
#include <vector>

#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class Model {
 public:
  // Parallel arrays. Keeps the tensors alive, so that their addresses stay unique.
  Model(std::vector<std::string> names, std::vector<std::string> module_types,
        std::vector<at::Tensor> tensors);

  std::vector<ModelParameter> parameters() const;
  const std::string& name(std::uint32_t parameter) const { return names_[parameter]; }
  // All parameters are on one device, as DDP requires.
  c10::Device device() const {
    return tensors_.empty() ? c10::Device(c10::kCPU) : tensors_.front().device();
  }

  // Whether the core can sum the bucket. Sparse gradients and types other than FP32, BF16 and FP16
  // have buckets of their own, which the engine sums as it does without us.
  static bool has_route(const c10d::GradBucket& bucket);
  // The bucket for the core. `values` is its buffer, or a copy of it in host memory. Throws
  // c10::Error if a parameter does not belong to this model. Precondition: has_route().
  Bucket view(c10d::GradBucket& bucket, const at::Tensor& values) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::string> module_types_;
  std::vector<at::Tensor> tensors_;
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> index_;
};

}  // namespace nf::torch_front
