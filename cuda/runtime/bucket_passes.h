// Operations on a bucket in device memory other than the all-reduce. Each is one pass over its
// values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/fabric.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// Multiplies values by a factor in place, with the same bits as runtime/scale.h.
Status scale(Values values, float factor, cudaStream_t stream);

// The sum of squares of the finite values, and the number of NaN and Inf.
struct DeviceNorm {
  double energy = 0;
  std::uint64_t non_finite = 0;
};

// Consecutive values of one region.
struct NormChunk {
  std::uint64_t offset = 0;  // values from the start of the bucket
  std::uint32_t count = 0;
  std::uint32_t region = 0;
};
// `regions` is indexed by slot.
std::vector<NormChunk> norm_chunks(std::span<const BucketSlot> slots,
                                   std::span<const std::uint32_t> regions);

// Adds the norms of a bucket's chunks to those of their regions, with the same bits for the same
// values on every device. All pointers are to device memory; `partial` has one element per chunk.
Status add_norms(ConstValues bucket, const NormChunk* chunks, std::uint32_t chunk_count,
                 std::uint32_t regions, DeviceNorm* partial, DeviceNorm* norms,
                 cudaStream_t stream);

}  // namespace nf::cuda
