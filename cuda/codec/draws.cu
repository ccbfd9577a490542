#include <algorithm>
#include <string>

#include "cuda/codec/draws.h"
#include "cuda/device/draws.cuh"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMaxBlocks = 8192;  // more than are resident on any device; the loop strides

__global__ void fill(DrawStream draws, std::uint64_t first, std::size_t count, std::uint16_t* out) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    out[i] = static_cast<std::uint16_t>(device::draw_of(draws, first + i));
  }
}

}  // namespace

Status fill_draws(const DrawStream& draws, std::uint64_t first, std::size_t count,
                  std::uint16_t* device_out, cudaStream_t stream) {
  if (count == 0) return {};
  const std::size_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
  fill<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(draws, first, count, device_out);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    return {ErrorCode::kUnsupported, std::string("fill_draws: ") + cudaGetErrorString(error)};
  }
  return {};
}

}  // namespace nf::cuda
