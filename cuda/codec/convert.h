// Converts values between types.
#pragma once

#include <cuda_runtime_api.h>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// 16 bits to FP32 is exact and keeps the bits of a NaN, like the codec fp32. FP32 to 16 bits rounds
// to nearest, ties to even, like decoding. Precondition: both sides have the same count, and one
// of them is FP32.
Status convert(ConstValues from, Values to, cudaStream_t stream);

}  // namespace nf::cuda
