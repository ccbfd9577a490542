// Statistics of the sparse codecs: norms of blocks, and their ranks by norm.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// The sum of squares of every block as BF16, block after block: topkc's statistics.
Status take_norms(const Batch& batch, std::uint32_t block, std::byte* out, cudaStream_t stream);

// The highest rung of the ladder that lists a block, or that it is silent or poisoned: omnireduce's
// statistics (docs/codecs/omnireduce.md). Parameters are whole in the batch. `room` is of
// rungs_room() bytes.
std::size_t rungs_room(const Batch& batch);
Status take_rungs(const Batch& batch, std::uint32_t block, std::byte* out, std::byte* room,
                  cudaStream_t stream);

}  // namespace nf::cuda
