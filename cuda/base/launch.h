// Helpers for launches: grid sizes, the value type as a template argument, and CUDA errors as a
// Status.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// Clears CUDA's last error, so that the next launch does not report it again.
inline Status to_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported;
  return {code, std::string(what) + ": " + cudaGetErrorString(error)};
}

// Copies within device memory.
inline Status copy_on_device(void* to, const void* from, std::size_t size, cudaStream_t stream) {
  return to_status(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream),
                   "copy on the device");
}

// The status of the launch just made.
inline Status launch_status(const char* kernel) { return to_status(cudaGetLastError(), kernel); }

// kernel<<<grid, threads, 0, stream>>>(arguments...). No-op if the grid is empty.
template <typename... Parameters>
Status launch(const char* name, void (*kernel)(Parameters...), unsigned grid, unsigned threads,
              cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  if (grid == 0) return {};
  void* pointers[] = {&arguments...};
  return to_status(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid),
                                    dim3(threads), pointers, 0, stream),
                   name);
}

// The multiprocessors of the current device.
inline unsigned multiprocessors() {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 1;
  }
  return static_cast<unsigned>(std::max(count, 1));
}

// Thread blocks for `items`, `per_block` items per thread block.
inline unsigned grid_of(std::size_t items, std::size_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// Calls work(std::integral_constant<DataType, type>()) and returns its result.
template <typename Work>
auto with_type(DataType type, Work work) {
  switch (type) {
    case DataType::kBfloat16: return work(std::integral_constant<DataType, DataType::kBfloat16>());
    case DataType::kFloat16: return work(std::integral_constant<DataType, DataType::kFloat16>());
    case DataType::kFloat32: break;
  }
  return work(std::integral_constant<DataType, DataType::kFloat32>());
}

}  // namespace nf::cuda
