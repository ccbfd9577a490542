// Chooses the blocks that a sparse codec sends: SparseCodec::do_choose_widths() on a device. Bytes
// are counted by key, the level is found from the highest key down, and its spare bytes go to the
// first blocks that fit.
#include "cuda/device/spans.cuh"
#include "cuda/device/warp.cuh"

namespace nf::cuda {
namespace {

using device::kSentWidth;
using device::SparseBlock;

constexpr unsigned kThreads = 256;
constexpr unsigned kLevelThreads = 1024;

__device__ void add_to(std::uint64_t* number, std::uint64_t addend) {
  atomicAdd(reinterpret_cast<unsigned long long*>(number), addend);
}

// Counts the bytes of all blocks by key. Many blocks have the same key, so lanes of a warp with
// equal keys add once.
__global__ void __launch_bounds__(kThreads) count_bytes(SparseShape shape, SparseTables tables) {
  const std::uint32_t block = blockIdx.x * kThreads + threadIdx.x;
  std::uint32_t key = 0;
  SparseBlock own;
  if (block < tables.blocks) {
    own = device::sparse_block(shape, tables.parameters, tables.parameter_count, block);
    key = own.key(shape);
  }
  const bool counts = key > 0 && key < shape.poison;
  const bool is_whole = counts && own.held == shape.block;
  const unsigned alike = __match_any_sync(device::kAllLanes, is_whole ? key : 0);
  if (!counts) return;
  if (!is_whole) {
    add_to(tables.bytes_at + key, own.bytes());
  } else if (threadIdx.x % device::kWarp == static_cast<unsigned>(__ffs(alike)) - 1) {
    add_to(tables.bytes_at + key, std::uint64_t{own.bytes()} * __popc(alike));
  }
}

// One thread block; each thread has some neighbouring keys, the first thread the largest ones.
__global__ void __launch_bounds__(kLevelThreads)
    find_level(SparseShape shape, SparseTables tables, std::uint64_t capacity) {
  using Scan = cub::BlockScan<std::uint64_t, kLevelThreads>;
  __shared__ Scan::TempStorage temp;
  const std::uint32_t share = (shape.poison + kLevelThreads - 1) / kLevelThreads;
  const std::uint32_t first = min(threadIdx.x * share, shape.poison);  // from the top
  const std::uint32_t end = min(first + share, shape.poison);
  const auto bytes_below = [&](std::uint32_t i) { return tables.bytes_at[shape.poison - 1 - i]; };
  std::uint64_t own = 0;
  for (std::uint32_t i = first; i < end; ++i) own += bytes_below(i);
  std::uint64_t above = 0;
  std::uint64_t all = 0;
  Scan(temp).ExclusiveSum(own, above, all);
  if (all <= capacity) {
    if (threadIdx.x == 0) *tables.level = {.spare = capacity - all};
    return;
  }
  // The level is the key at which the sum exceeds the capacity; one thread has it.
  if (above > capacity || above + own <= capacity) return;
  std::uint64_t spare = capacity - above;
  std::uint32_t i = first;
  for (; bytes_below(i) <= spare; ++i) spare -= bytes_below(i);
  *tables.level = {.key = shape.poison - 1 - i, .spare = spare};
}

// Sends all blocks above the level, and those at the level that fit in order.
__global__ void __launch_bounds__(device::kSpanThreads)
    fill_to_level(SparseShape shape, SparseTables tables) {
  __shared__ union {
    device::SpanScan::TempStorage scan;
    device::SpanReduce::TempStorage reduce;
  } temp;
  const SparseLevel level = *tables.level;
  std::uint64_t filled = 0;
  const auto choose = [&](std::uint32_t block, std::uint64_t bytes, std::uint64_t before) {
    const bool fits = bytes > 0 && before + bytes <= level.spare;
    if (fits) filled += bytes;
    const std::uint32_t key =
        device::sparse_block(shape, tables.parameters, tables.parameter_count, block).key(shape);
    const bool is_above = key > level.key && key < shape.poison;
    tables.widths[block] = static_cast<std::uint8_t>(fits || is_above ? kSentWidth : 0);
  };
  device::for_each_in_span(shape, tables, temp.scan, device::BytesAtLevel(), choose);
  filled = device::SpanReduce(temp.reduce).Sum(filled);
  if (threadIdx.x == 0 && filled > 0) add_to(&tables.level->filled, filled);
}

// One thread block. Fewer bytes remain than the first block that did not fit needs, so only the
// shorter last blocks of parameters may still fit. They are few; one thread visits them in order.
__global__ void __launch_bounds__(kThreads)
    fill_with_tails(SparseShape shape, SparseTables tables) {
  __shared__ std::uint32_t wanted[kThreads];  // bytes of a candidate, or 0
  const SparseLevel level = *tables.level;
  if (level.key == 0) return;
  std::uint64_t spare = level.spare - level.filled;  // used by the first thread only
  for (std::uint32_t base = 0; base < tables.parameter_count; base += kThreads) {
    const std::uint32_t p = base + threadIdx.x;
    std::uint32_t bytes = 0;
    std::uint32_t block = 0;
    if (p < tables.parameter_count) {
      const DevicePiece* piece = tables.parameters + p;
      const SparseBlock end{
          .piece = piece, .index = piece->count / shape.block, .held = piece->count % shape.block};
      block = piece->first_block + end.index;
      if (end.held > 0 && end.key(shape) == level.key && tables.widths[block] == 0) {
        bytes = end.bytes();
      }
    }
    wanted[threadIdx.x] = bytes;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (std::uint32_t& own : wanted) {
        if (own > spare) own = 0;
        spare -= own;
      }
    }
    __syncthreads();
    if (wanted[threadIdx.x] > 0) tables.widths[block] = kSentWidth;
    __syncthreads();
  }
}

}  // namespace

std::size_t sparse_spans(std::uint32_t blocks) { return grid_of(blocks, device::kSpan); }

Status choose_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t capacity,
                     cudaStream_t stream) {
  NF_RETURN_IF_ERROR(
      to_status(cudaMemsetAsync(tables.bytes_at, 0, shape.poison * sizeof *tables.bytes_at, stream),
                "cudaMemsetAsync"));
  NF_RETURN_IF_ERROR(launch("bytes by key", count_bytes, grid_of(tables.blocks, kThreads), kThreads,
                            stream, shape, tables));
  NF_RETURN_IF_ERROR(
      launch("level of keys", find_level, 1, kLevelThreads, stream, shape, tables, capacity));
  NF_RETURN_IF_ERROR(device::add_up_spans(shape, tables, device::BytesAtLevel(), stream));
  NF_RETURN_IF_ERROR(launch("blocks of the level", fill_to_level,
                            static_cast<unsigned>(sparse_spans(tables.blocks)),
                            device::kSpanThreads, stream, shape, tables));
  return launch("last blocks of the level", fill_with_tails, 1, kThreads, stream, shape, tables);
}

}  // namespace nf::cuda
