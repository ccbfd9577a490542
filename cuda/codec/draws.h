// Random draws in device memory, for tests. Codecs compute their draws in registers
// (device/draws.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// Writes the draws of elements [first, first + count) of a parameter to device memory, on `stream`.
Status fill_draws(const DrawStream& draws, std::uint64_t first, std::size_t count,
                  std::uint16_t* device_out, cudaStream_t stream);

}  // namespace nf::cuda
