// Values of one type as values of another.
#pragma once

#include <cuda_runtime_api.h>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// FP32 from 16 bits is exact and keeps the bits of a NaN, as the codec fp32 does; to 16 bits it is
// to nearest, ties to even, as decoding does. Precondition: as many values, of which one side is
// FP32.
Status convert(ConstValues from, Values to, cudaStream_t stream);

}  // namespace nf::cuda
