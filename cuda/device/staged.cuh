// Values of sign blocks in shared memory, and sums over them in the order of the CPU. A thread
// block that encodes stages two blocks of values unchanged. One warp sums, sixteen lanes per block;
// meanwhile the others pack digits.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/device/running_sums.cuh"
#include "cuda/device/sign.cuh"
#include "cuda/device/values.cuh"

namespace nf::device {

inline constexpr unsigned kStagedBlocks = 32 / kRunningSums;
inline constexpr unsigned kSignWarps = kSignThreads / 32;
inline constexpr unsigned kPackingThreads = kSignThreads - 32;
static_assert(kBlockChunks % 32 == 0);  // the lanes of a warp have chunks of one block

// The warp that sums. It rotates over thread blocks, since warps of the same index share a
// scheduler.
__device__ inline bool is_summing() { return threadIdx.x / 32 == blockIdx.x % kSignWarps; }

// This thread's index among the threads that pack.
__device__ inline unsigned packing_thread() {
  const unsigned behind = threadIdx.x / 32 + kSignWarps - blockIdx.x % kSignWarps - 1;
  return behind % kSignWarps * 32 + threadIdx.x % 32;
}

template <DataType kType>
using ChunkWords = std::uint32_t[kValueWords<kType, kLaneCodes>];

// The values of a tile in shared memory, with zeros after the last value.
template <DataType kType>
struct Staged {
  // A padding row between the blocks avoids bank conflicts.
  static constexpr unsigned kStride = (kSignBlock + kRunningSums) * size_of(kType);

  alignas(16) std::byte bytes[kStagedBlocks * kStride];

  __device__ std::byte* at(unsigned b, unsigned e) {
    return bytes + b * kStride + e * static_cast<unsigned>(size_of(kType));
  }
  __device__ const std::byte* at(unsigned b, unsigned e) const {
    return bytes + b * kStride + e * static_cast<unsigned>(size_of(kType));
  }
};

// Starts copying the values of a tile. All threads take part.
template <DataType kType>
__device__ void start_staging(const Tile& tile, Staged<kType>& staged) {
  constexpr unsigned kCopied = 16 / size_of(kType);  // values per copy
  constexpr unsigned kRound = kSignThreads * kCopied;
#pragma unroll
  for (unsigned b = 0; b < kStagedBlocks; ++b) {
    const SignBlock block(tile, b);
    const std::byte* values = static_cast<const std::byte*>(block.piece.values) +
                              std::size_t{block.start()} * size_of(kType);
    const unsigned first = threadIdx.x * kCopied;
    if (block.held == kSignBlock) {
#pragma unroll
      for (unsigned e = 0; e < kSignBlock; e += kRound) {
        __pipeline_memcpy_async(staged.at(b, first + e), values + (first + e) * size_of(kType), 16);
      }
      continue;
    }
#pragma unroll 1
    for (unsigned e = first; e < kSignBlock; e += kRound) {
      std::uint32_t words[4] = {};
      if (e < block.held) load_words_before<kType>(values, e, block.held - e, words);
      store_words(words, staged.at(b, e));
    }
  }
  __pipeline_commit();
}

// Waits for the copies.
__device__ inline void finish_staging() {
  __pipeline_wait_prior(0);
  __syncthreads();
}

template <DataType kType>
__device__ float load_staged(const std::byte* at) {
  if constexpr (kType == DataType::kFloat32) {
    return *reinterpret_cast<const float*>(at);
  } else {
    const std::uint32_t word[1] = {*reinterpret_cast<const std::uint16_t*>(at)};
    float pair[2];
    widen<kType>(word, pair);
    return pair[0];
  }
}

// The result of add(x, sum) over a block, by sixteen lanes; the first of them gets the result.
template <DataType kType, typename Add>
__device__ float staged_sum(const Staged<kType>& staged, Add add) {
  const std::byte* column = staged.at(threadIdx.x % 32 / kRunningSums, threadIdx.x % kRunningSums);
  float sum = 0;
#pragma unroll 16
  for (unsigned row = 0; row < kSignBlock / kRunningSums; ++row) {
    add(load_staged<kType>(column + row * kRunningSums * size_of(kType)), sum);
  }
  return fold_running_sums(sum);
}

}  // namespace nf::device
