// Copies from host memory to a device without host synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "neuron_fabric/status.h"

namespace nf::cuda {

// Copies `bytes` to device memory in the order of `stream`. They may change as soon as the call
// returns: they are staged in pinned memory, because a copy from other memory may wait for the
// stream. The staging memory of complete copies is reused; it is never freed. Any thread may call
// it, with the stream's device current.
Status upload(void* to, std::span<const std::byte> bytes, cudaStream_t stream);

}  // namespace nf::cuda
