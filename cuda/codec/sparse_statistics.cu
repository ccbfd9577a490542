#include "cuda/codec/sparse_statistics.h"

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "codec/sparse/ladder.h"
#include "cuda/base/device_memory.h"
#include "cuda/base/launch.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/values.cuh"
#include "cuda/device/warp.cuh"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kChains = 4;  // running sums per lane, of the sixteen
constexpr unsigned kTeam = 16 / kChains;

// Four lanes per block: each has four of the running sums, and the four read rows of sixteen
// values. put(block, index of its piece, norm) stores the norm. Missing values of a short block
// count as zeros.
template <DataType kType, typename Put>
__global__ void __launch_bounds__(kThreads)
    norms_of_blocks(const DevicePiece* pieces, std::uint32_t piece_count, std::uint32_t blocks,
                    std::uint32_t values, Put put) {
  const std::uint32_t block = blockIdx.x * (kThreads / kTeam) + threadIdx.x / kTeam;
  const unsigned first = threadIdx.x % kTeam * kChains;
  float squares[kChains] = {};
  std::uint32_t p = 0;
  if (block < blocks) {
    p = device::piece_of(pieces, piece_count, block);
    const DevicePiece piece = pieces[p];
    const std::uint32_t start = (block - piece.first_block) * values;
    const std::uint32_t held = min(values, piece.count - start);
    const auto* own =
        static_cast<const std::byte*>(piece.values) + std::size_t{start} * size_of(kType);
#pragma unroll 4
    for (std::uint32_t row = 0; row < held; row += 16) {
      float x[kChains];
      if (row + 16 <= held) {
        device::load_values<kType>(own, row + first, x);
      } else {
        device::load_values_before<kType>(own, row + first, held, 0.0f, x);
      }
#pragma unroll
      for (unsigned k = 0; k < kChains; ++k) squares[k] += x[k] * x[k];
    }
  }
#pragma unroll
  for (int half = 2; half > 0; half /= 2) {
#pragma unroll
    for (unsigned k = 0; k < kChains; ++k) {
      squares[k] += device::from_neighbour(squares[k], half);
    }
  }
  if (block >= blocks || first != 0) return;
  put(block, p, float_to_bfloat16((squares[0] + squares[2]) + (squares[1] + squares[3])));
}

struct PutNorm {
  std::uint16_t* norms;

  __device__ void operator()(std::uint32_t block, std::uint32_t /*piece*/,
                             std::uint16_t norm) const {
    norms[block] = norm;
  }
};

// Sort keys: blocks by piece, then by descending norm; the sort is stable.
constexpr int kSortedBit = 32;  // the block's index is below
constexpr int kPieceBit = 48;
constexpr std::uint32_t kMaxPieces = 1u << (64 - kPieceBit);
constexpr std::uint32_t kMaxNorm = 0xffff;

struct PutItem {
  std::uint64_t* items;

  __device__ void operator()(std::uint32_t block, std::uint32_t piece, std::uint16_t norm) const {
    items[block] =
        std::uint64_t{piece} << kPieceBit | std::uint64_t{kMaxNorm - norm} << kSortedBit | block;
  }
};

__global__ void __launch_bounds__(kThreads)
    write_rungs(const DevicePiece* pieces, std::uint32_t blocks, std::uint32_t values,
                const std::uint64_t* sorted, std::byte* out) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= blocks) return;
  const std::uint64_t item = sorted[i];
  const DevicePiece piece = pieces[item >> kPieceBit];
  const std::uint32_t norm = kMaxNorm - (static_cast<std::uint32_t>(item >> kSortedBit) & 0xffffu);
  std::uint32_t key = 0;
  if (norm >= kInfinityBits >> 16) {
    key = kMaxRung + 1;
  } else if (norm > 0) {
    key = highest_rung(i - piece.first_block, (std::uint64_t{piece.count} + values - 1) / values);
  }
  out[static_cast<std::uint32_t>(item)] = static_cast<std::byte>(key);
}

template <typename Put>
Status put_norms(const Batch& batch, std::uint32_t block, Put put, cudaStream_t stream) {
  return with_type(batch.type, [&](auto type) {
    return launch("norms of blocks", norms_of_blocks<type(), Put>,
                  grid_of(batch.blocks, kThreads / kTeam), kThreads, stream, batch.pieces,
                  batch.piece_count, batch.blocks, block, put);
  });
}

std::size_t items_size(const Batch& batch) { return aligned(batch.blocks * sizeof(std::uint64_t)); }

// If `scratch` is null, only sets `size` to the bytes needed.
cudaError_t sort(const Batch& batch, std::byte* scratch, std::size_t& size,
                 cub::DoubleBuffer<std::uint64_t>& items, cudaStream_t stream) {
  const int end = kPieceBit + static_cast<int>(std::bit_width(batch.piece_count));
  return cub::DeviceRadixSort::SortKeys(scratch, size, items, batch.blocks, kSortedBit,
                                        std::min(end, 64), stream);
}

}  // namespace

Status compute_norms(const Batch& batch, std::uint32_t block, std::byte* out, cudaStream_t stream) {
  return put_norms(batch, block, PutNorm{reinterpret_cast<std::uint16_t*>(out)}, stream);
}

std::size_t rungs_scratch_size(const Batch& batch) {
  if (batch.blocks == 0) return 0;
  std::size_t size = 0;
  cub::DoubleBuffer<std::uint64_t> items;
  // If this fails, compute_rungs() fails with the error.
  if (sort(batch, nullptr, size, items, nullptr) != cudaSuccess) size = 0;
  return 2 * items_size(batch) + size;
}

Status compute_rungs(const Batch& batch, std::uint32_t block, std::byte* out, std::byte* scratch,
                     cudaStream_t stream) {
  if (batch.blocks == 0) return {};
  if (batch.piece_count > kMaxPieces) {
    return {ErrorCode::kUnsupported,
            "omnireduce on a device supports at most 65,536 parameters per call"};
  }
  const std::size_t half = items_size(batch);
  cub::DoubleBuffer<std::uint64_t> items(reinterpret_cast<std::uint64_t*>(scratch),
                                         reinterpret_cast<std::uint64_t*>(scratch + half));
  NF_RETURN_IF_ERROR(put_norms(batch, block, PutItem{items.Current()}, stream));
  std::size_t size = rungs_scratch_size(batch) - 2 * half;
  NF_RETURN_IF_ERROR(
      to_status(sort(batch, scratch + 2 * half, size, items, stream), "sort of blocks by norm"));
  return launch("rungs of blocks", write_rungs, grid_of(batch.blocks, kThreads), kThreads, stream,
                batch.pieces, batch.blocks, block, items.Current(), out);
}

}  // namespace nf::cuda
