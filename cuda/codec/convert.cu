#include "cuda/base/launch.h"
#include "cuda/codec/convert.h"
#include "cuda/device/rows.cuh"

namespace nf::cuda {
namespace {

using device::kRun;
using device::Row;

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kChunk = kThreads * kRun;

template <DataType kFrom, DataType kTo>
__global__ void __launch_bounds__(kThreads)
    convert_values(const void* from, void* to, std::uint64_t count) {
  const std::uint64_t chunk = std::uint64_t{blockIdx.x} * kChunk;
  const auto held = static_cast<std::uint32_t>(count - chunk < kChunk ? count - chunk : kChunk);
  const Row<const void> source(static_cast<const std::byte*>(from) + chunk * size_of(kFrom), held);
  const Row<void> target(static_cast<std::byte*>(to) + chunk * size_of(kTo), held);
  const std::uint32_t first = threadIdx.x * kRun;
  if (first >= held) return;
  float run[kRun];
  device::load_run<kFrom>(source, first, run);
  if constexpr (kFrom == DataType::kFloat16) device::keep_nan_bits(source, first, run);
  device::store_run<kTo>(run, target, first);
}

}  // namespace

Status convert(ConstValues from, Values to, cudaStream_t stream) {
  const unsigned grid = grid_of(from.count, kChunk);
  const auto put = [&](auto kernel) {
    return launch("convert", kernel, grid, kThreads, stream, from.data, to.data, from.count);
  };
  if (from.type == DataType::kFloat32) {
    return with_type(to.type,
                     [&](auto type) { return put(convert_values<DataType::kFloat32, type()>); });
  }
  return with_type(from.type,
                   [&](auto type) { return put(convert_values<type(), DataType::kFloat32>); });
}

}  // namespace nf::cuda
