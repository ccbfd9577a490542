// Statistics of the sparse codecs: norms of blocks, and rungs derived from their order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// topkc's statistics: the sum of squares of every block as BF16.
Status compute_norms(const Batch& batch, std::uint32_t block, std::byte* out, cudaStream_t stream);

// omnireduce's statistics (docs/codecs/omnireduce.md): the highest rung of the ladder that lists a
// block, 0 for an all-zero block, or the mark of NaN and Inf. The batch contains whole parameters.
// `scratch` has rungs_scratch_size() bytes.
std::size_t rungs_scratch_size(const Batch& batch);
Status compute_rungs(const Batch& batch, std::uint32_t block, std::byte* out, std::byte* scratch,
                     cudaStream_t stream);

}  // namespace nf::cuda
