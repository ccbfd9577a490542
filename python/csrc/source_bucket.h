// A bucket of gradients of a source: the seam between the runtime and the wrappers that compute
// gradients. Each wrapper has an adapter, such as ddp_bucket.h, that makes these buckets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "neuron_fabric/status.h"

namespace nf::torch_front {

// All ranks make the same buckets in the same order.
struct SourceBucket {
  at::Tensor buffer;      // contiguous or sparse; receives the result
  std::size_t index = 0;  // in the step
  bool is_last = false;   // of the step
  Reduction reduction = Reduction::kMean;
  // The positions of the parameters' gradients in the buffer. nullopt: no parameter has a route,
  // and the engine sums the buffer.
  std::optional<std::vector<BucketSlot>> slots = {};
  Status validity = {};  // if not ok, the bucket fails on all ranks
};

// The type of the core; nullopt if it cannot sum such values.
std::optional<DataType> data_type(at::ScalarType type);

// The bucket for the core. `values` is its buffer, or a copy of it in host memory. Precondition:
// the buffer has a data_type() if the bucket has slots.
Bucket core_bucket(const SourceBucket& bucket, const at::Tensor& values);

}  // namespace nf::torch_front
