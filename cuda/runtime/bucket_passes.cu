#include "cuda/runtime/bucket_passes.h"

#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/device/values.cuh"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kRun = 8;  // values per thread and iteration
constexpr std::uint32_t kChunk = kThreads * kRun * 8;

__device__ bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    scale_values(void* values, std::uint64_t count, float factor) {
  const std::uint64_t block = std::uint64_t{blockIdx.x} * kChunk;
  auto* own = static_cast<std::byte*>(values) + block * size_of(kType);
  const auto held = static_cast<std::uint32_t>(count - block < kChunk ? count - block : kChunk);
  const bool aligned = is_aligned(own);
  for (std::uint32_t first = threadIdx.x * kRun; first < held; first += kThreads * kRun) {
    float run[kRun];
    const bool is_whole = aligned && first + kRun <= held;
    if (is_whole) {
      device::load_values<kType>(own, first, run);
    } else {
      device::load_values_before<kType>(own, first, held, 0.0f, run);
    }
#pragma unroll
    for (float& value : run) value *= factor;
    if (is_whole) {
      device::store_values<kType>(run, own, first);
    } else {
      device::store_values_before<kType>(run, own, first, held);
    }
  }
}

// The sum over a block, in thread 0. The order depends only on the number of threads.
__device__ DeviceNorm sum_of_block(const DeviceNorm& own) {
  __shared__ double energies[kThreads];
  __shared__ std::uint64_t counts[kThreads];
  energies[threadIdx.x] = own.energy;
  counts[threadIdx.x] = own.non_finite;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    energies[threadIdx.x] += energies[threadIdx.x + half];
    counts[threadIdx.x] += counts[threadIdx.x + half];
  }
  return {energies[0], counts[0]};
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    norm_of_chunk(const void* values, const NormChunk* chunks, DeviceNorm* partial) {
  const NormChunk chunk = chunks[blockIdx.x];
  const auto* own = static_cast<const std::byte*>(values) + chunk.offset * size_of(kType);
  const bool aligned = is_aligned(own);
  DeviceNorm norm;
  for (std::uint32_t first = threadIdx.x * kRun; first < chunk.count; first += kThreads * kRun) {
    float run[kRun];
    if (aligned && first + kRun <= chunk.count) {
      device::load_values<kType>(own, first, run);
    } else {
      device::load_values_before<kType>(own, first, chunk.count, 0.0f, run);
    }
#pragma unroll
    for (const float value : run) {
      const bool is_finite = (__float_as_uint(value) & kMagnitudeMask) < kInfinityBits;
      norm.non_finite += is_finite ? 0 : 1;
      const double finite = is_finite ? value : 0.0f;
      norm.energy += finite * finite;
    }
  }
  const DeviceNorm sum = sum_of_block(norm);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block per region.
__global__ void __launch_bounds__(kThreads)
    add_norms_of_region(const NormChunk* chunks, std::uint32_t chunk_count,
                        const DeviceNorm* partial, DeviceNorm* norms) {
  DeviceNorm norm;
  for (std::uint32_t i = threadIdx.x; i < chunk_count; i += kThreads) {
    if (chunks[i].region != blockIdx.x) continue;
    norm.energy += partial[i].energy;
    norm.non_finite += partial[i].non_finite;
  }
  const DeviceNorm sum = sum_of_block(norm);
  if (threadIdx.x != 0) return;
  norms[blockIdx.x].energy += sum.energy;
  norms[blockIdx.x].non_finite += sum.non_finite;
}

}  // namespace

Status scale(Values values, float factor, cudaStream_t stream) {
  if (factor == 1.0f || values.count == 0) return {};
  return with_type(values.type, [&](auto type) {
    return launch("scaling of values", scale_values<type.value>, grid_of(values.count, kChunk),
                  kThreads, stream, values.data, values.count, factor);
  });
}

std::vector<NormChunk> norm_chunks(std::span<const BucketSlot> slots,
                                   std::span<const std::uint32_t> regions) {
  std::vector<NormChunk> chunks;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    for (std::size_t first = 0; first < slots[i].count; first += kChunk) {
      chunks.push_back({.offset = slots[i].offset + first,
                        .count = static_cast<std::uint32_t>(
                            std::min<std::size_t>(kChunk, slots[i].count - first)),
                        .region = regions[i]});
    }
  }
  return chunks;
}

Status add_norms(ConstValues bucket, const NormChunk* chunks, std::uint32_t chunk_count,
                 std::uint32_t regions, DeviceNorm* partial, DeviceNorm* norms,
                 cudaStream_t stream) {
  if (chunk_count == 0) return {};
  NF_RETURN_IF_ERROR(with_type(bucket.type, [&](auto type) {
    return launch("norms of chunks", norm_of_chunk<type.value>, chunk_count, kThreads, stream,
                  bucket.data, chunks, partial);
  }));
  return launch("norms of regions", add_norms_of_region, regions, kThreads, stream, chunks,
                chunk_count, partial, norms);
}

}  // namespace nf::cuda
