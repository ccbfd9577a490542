// Prefix sums over the blocks of a sparse codec, of which there may be millions: each thread block
// sums a span of blocks, one thread block scans the sums of spans, and then each thread block
// starts from the sum before its span.
#pragma once

#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "cuda/base/launch.h"
#include "cuda/device/sparse.cuh"

namespace nf::device {

inline constexpr unsigned kSpanThreads = 256;
inline constexpr unsigned kSpanRounds = 16;
inline constexpr std::uint32_t kSpan = kSpanThreads * kSpanRounds;  // blocks

using SpanScan = cub::BlockScan<std::uint64_t, kSpanThreads>;
using SpanReduce = cub::BlockReduce<std::uint64_t, kSpanThreads>;

// The block of this thread in a round; it may be past the last one.
__device__ inline std::uint32_t block_in_span(unsigned round) {
  return blockIdx.x * kSpan + round * kSpanThreads + threadIdx.x;
}

// Bytes of a block in messages, once widths are chosen.
struct SentBytes {
  __device__ std::uint32_t operator()(const SparseShape& shape, const cuda::SparseTables& tables,
                                      std::uint32_t block) const {
    if (tables.widths[block] == 0) return 0;
    return sparse_block(shape, tables.parameters, tables.parameter_count, block).bytes();
  }
};

// Bytes of a block whose key is the level, otherwise 0.
struct BytesAtLevel {
  __device__ std::uint32_t operator()(const SparseShape& shape, const cuda::SparseTables& tables,
                                      std::uint32_t block) const {
    const SparseBlock own = sparse_block(shape, tables.parameters, tables.parameter_count, block);
    const std::uint32_t level = tables.level->key;
    return level > 0 && own.key(shape) == level ? own.bytes() : 0;
  }
};

// The sums of spans, one thread block per span.
template <typename Bytes>
__global__ void __launch_bounds__(kSpanThreads)
    sum_spans(SparseShape shape, cuda::SparseTables tables, Bytes bytes) {
  __shared__ SpanReduce::TempStorage temp;
  std::uint64_t sum = 0;
  for (unsigned round = 0; round < kSpanRounds; ++round) {
    const std::uint32_t block = block_in_span(round);
    if (block < tables.blocks) sum += bytes(shape, tables, block);
  }
  sum = SpanReduce(temp).Sum(sum);
  if (threadIdx.x == 0) tables.span_sums[blockIdx.x] = sum;
}

// One thread block: replaces the sums of spans by the sums of all spans before.
template <typename Sum>
__global__ void __launch_bounds__(kSpanThreads) add_spans(Sum* sums, std::uint32_t spans) {
  using Scan = cub::BlockScan<Sum, kSpanThreads>;
  __shared__ typename Scan::TempStorage temp;
  Sum before = 0;  // the same in all threads
  for (std::uint32_t base = 0; base < spans; base += kSpanThreads) {
    const std::uint32_t i = base + threadIdx.x;
    Sum own = 0;
    Sum all = 0;
    Scan(temp).ExclusiveSum(i < spans ? sums[i] : 0, own, all);
    if (i < spans) sums[i] = before + own;
    before += all;
    __syncthreads();
  }
}

// Calls work(block, its bytes, those of all blocks before it) for the blocks of this thread.
template <typename Bytes, typename Work>
__device__ void for_each_in_span(const SparseShape& shape, const cuda::SparseTables& tables,
                                 SpanScan::TempStorage& temp, Bytes bytes, Work work) {
  std::uint64_t before = tables.span_sums[blockIdx.x];  // the same in all threads
  for (unsigned round = 0; round < kSpanRounds; ++round) {
    const std::uint32_t block = block_in_span(round);
    const std::uint64_t own = block < tables.blocks ? bytes(shape, tables, block) : 0;
    std::uint64_t sum = 0;
    std::uint64_t all = 0;
    SpanScan(temp).ExclusiveSum(own, sum, all);
    if (block < tables.blocks) work(block, own, before + sum);
    before += all;
    __syncthreads();
  }
}

// Computes the prefix sums of `bytes` over spans, for for_each_in_span().
template <typename Bytes>
Status add_up_spans(const SparseShape& shape, const cuda::SparseTables& tables, Bytes bytes,
                    cudaStream_t stream) {
  const auto spans = static_cast<std::uint32_t>(cuda::sparse_spans(tables.blocks));
  NF_RETURN_IF_ERROR(cuda::launch("sums of spans", sum_spans<Bytes>, spans, kSpanThreads, stream,
                                  shape, tables, bytes));
  return cuda::launch("prefix sums of spans", add_spans<std::uint64_t>, 1, kSpanThreads, stream,
                      tables.span_sums, spans);
}

}  // namespace nf::device
