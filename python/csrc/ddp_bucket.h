// Adapter of DistributedDataParallel: makes the runtime's buckets from DDP's.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "model.h"
#include "source_bucket.h"

namespace nf::torch_front {

// The bucket is invalid if a parameter does not belong to the model. Sparse gradients and types
// other than FP32, BF16 and FP16 have buckets of their own, without a route.
SourceBucket ddp_bucket(const Model& model, c10d::GradBucket& bucket);

}  // namespace nf::torch_front
