// Partitions the blocks of a sparse codec into tiles and computes their offsets in the tiles'
// messages: TileMap::place() on a device. Messages contain only the bytes of blocks, so everything
// follows from the number of bytes before a block.
#include "cuda/device/spans.cuh"

namespace nf::cuda {
namespace {

using device::kSpanThreads;
using device::SentBytes;

__device__ std::uint32_t tile_at(const SparseTables& tables, std::uint64_t share,
                                 std::uint64_t before) {
  const std::uint64_t tile = before / share;
  return tile < tables.tiles ? static_cast<std::uint32_t>(tile) : tables.tiles - 1;
}

// The first block and byte of each tile. An empty tile starts where the next one does.
__global__ void __launch_bounds__(kSpanThreads)
    find_tile_starts(SparseShape shape, SparseTables tables, std::uint64_t share) {
  __shared__ device::SpanScan::TempStorage temp;
  const auto start_tiles = [&](std::uint32_t from, std::uint32_t to, std::uint32_t block,
                               std::uint64_t before) {
    for (std::uint32_t tile = from; tile < to; ++tile) {
      tables.bounds[tile].first_block = block;
      tables.tile_starts[tile] = before;
    }
  };
  const auto visit = [&](std::uint32_t block, std::uint64_t bytes, std::uint64_t before) {
    const std::uint32_t tile = tile_at(tables, share, before);
    std::uint32_t from = 0;  // the first tile that does not start before this block
    if (block > 0) {
      from = 1 + tile_at(tables, share, before - SentBytes()(shape, tables, block - 1));
    }
    start_tiles(from, tile + 1, block, before);
    if (block + 1 == tables.blocks) start_tiles(tile + 1, tables.tiles, block + 1, before + bytes);
  };
  device::for_each_in_span(shape, tables, temp, SentBytes(), visit);
}

__global__ void __launch_bounds__(kSpanThreads)
    lay_out(SparseShape shape, SparseTables tables, std::uint64_t share) {
  __shared__ device::SpanScan::TempStorage temp;
  device::for_each_in_span(
      shape, tables, temp, SentBytes(),
      [&](std::uint32_t block, std::uint64_t bytes, std::uint64_t before) {
        const std::uint64_t start = tables.tile_starts[tile_at(tables, share, before)];
        const auto at = static_cast<std::uint32_t>(before - start);
        const std::uint32_t width = bytes > 0 ? device::kSentWidth : 0;
        tables.offsets[block] = {.units = at, .scales = at, .codes = at, .width = width};
      });
}

// Completes the bounds from the tiles' first blocks.
__global__ void __launch_bounds__(kSpanThreads) bound_tiles(SparseTables tables) {
  const std::uint32_t tile = blockIdx.x * kSpanThreads + threadIdx.x;
  if (tile >= tables.tiles) return;
  const std::uint32_t end =
      tile + 1 == tables.tiles ? tables.blocks : tables.bounds[tile + 1].first_block;
  tables.bounds[tile].first_piece = 0;
  tables.bounds[tile].piece_count = tables.parameter_count;
  tables.bounds[tile].blocks = end - tables.bounds[tile].first_block;
}

}  // namespace

Status lay_out_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t share,
                      cudaStream_t stream) {
  if (tables.blocks == 0) {
    return to_status(
        cudaMemsetAsync(tables.bounds, 0, tables.tiles * sizeof *tables.bounds, stream),
        "cudaMemsetAsync");
  }
  const auto spans = static_cast<unsigned>(sparse_spans(tables.blocks));
  NF_RETURN_IF_ERROR(device::add_up_spans(shape, tables, SentBytes(), stream));
  NF_RETURN_IF_ERROR(launch("find_tile_starts", find_tile_starts, spans, kSpanThreads, stream,
                            shape, tables, share));
  NF_RETURN_IF_ERROR(
      launch("lay_out_blocks", lay_out, spans, kSpanThreads, stream, shape, tables, share));
  return launch("bounds of tiles", bound_tiles, grid_of(tables.tiles, kSpanThreads), kSpanThreads,
                stream, tables);
}

}  // namespace nf::cuda
