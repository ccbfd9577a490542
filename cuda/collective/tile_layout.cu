// Partitions super-groups of chosen widths into tiles and computes their offsets in the tiles'
// messages: collective/tile_map.cc and the layout of codec/super_group_codec.cc on a device.
#include "cuda/base/launch.h"
#include "cuda/device/width_rule.cuh"

namespace nf::cuda {
namespace {

using device::blocks_of;
using device::granule_bytes;
using device::held_in;
using device::kPacks;
using device::kSuper;
using device::kUnitBytes;
using device::packs_in;
using device::Reduce;
using device::scales_in;
using device::Scan;
using device::up_to_16;

constexpr unsigned kThreads = device::kPlanThreads;

// Bytes in the low bits, super-groups with bytes in the high bits: one scan for both.
constexpr unsigned kCountShift = 40;

// One thread block per budget: TileMap::place().
__global__ void __launch_bounds__(kThreads)
    partition(DeviceWidthRule rule, WidthTables tables, std::uint32_t hop, std::size_t value_size,
              const std::uint8_t* widths) {
  __shared__ Scan::TempStorage temp;
  const WidthBudget budget = tables.budgets[blockIdx.x];
  if (budget.hop != hop) return;
  const DevicePiece* const parameters = tables.parameters + budget.parameters.first_piece;
  DevicePiece* const own_pieces = tables.pieces + budget.first_piece;
  std::uint32_t* const piece_parameter = tables.piece_parameter + budget.first_piece;
  std::uint32_t* const piece_tile = tables.piece_tile + budget.first_piece;
  BatchBounds* const own_bounds = tables.bounds + budget.first_tile;

  std::uint64_t start = 0;   // first byte of the parameter; the same in all threads
  std::uint32_t pieces = 0;  // so far; the same in all threads
  for (std::uint32_t p = 0; p < budget.parameters.piece_count; ++p) {
    const DevicePiece parameter = parameters[p];
    const std::uint32_t blocks = blocks_of(parameter.count);
    const std::uint8_t* own = widths + parameter.first_block;
    std::uint64_t before = 0;  // bytes and super-groups of the parameter so far
    for (std::uint32_t base = 0; base < blocks; base += kThreads) {
      const std::uint32_t j = base + threadIdx.x;
      const std::uint32_t width = j < blocks ? own[j] : 0;
      const std::uint64_t bytes = granule_bytes(rule, width);
      std::uint64_t sum = 0;
      std::uint64_t all = 0;
      Scan(temp).ExclusiveSum(bytes | std::uint64_t{width != 0} << kCountShift, sum, all);
      __syncthreads();
      const std::uint64_t mask = (std::uint64_t{1} << kCountShift) - 1;
      const std::uint64_t offset = start + ((before + sum) & mask);
      const auto tile_at = [&](std::uint64_t at) {
        const std::uint64_t tile = at / budget.share;
        return tile < budget.tiles ? static_cast<std::uint32_t>(tile) : budget.tiles - 1;
      };
      const std::uint32_t tile = tile_at(offset);
      const bool is_first =
          j < blocks && (j == 0 || tile_at(offset - granule_bytes(rule, own[j - 1])) != tile);
      std::uint64_t index = 0;
      std::uint64_t found = 0;
      Scan(temp).ExclusiveSum(std::uint64_t{is_first}, index, found);
      __syncthreads();
      if (is_first) {
        const std::uint32_t at = pieces + static_cast<std::uint32_t>(index);
        own_pieces[at] = {
            .values =
                static_cast<std::byte*>(parameter.values) + std::size_t{j} * kSuper * value_size,
            .statistics = parameter.statistics + std::size_t{j} * kSuperGroupStatistics,
            .parameter = parameter.parameter,
            .first = parameter.first + std::uint64_t{j} * kSuper,
            .first_block = parameter.first_block + j};
        piece_parameter[at] = p;
        piece_tile[at] = tile;
      }
      pieces += static_cast<std::uint32_t>(found);
      before += all;
    }
    if (blocks == 0) continue;
    // Bytes of the whole parameter; the last super-group may have fewer values.
    const std::uint32_t sent = static_cast<std::uint32_t>(before >> kCountShift);
    const std::uint32_t last = own[blocks - 1];
    const std::uint32_t held = held_in(parameter, blocks - 1);
    std::uint64_t codes = (before & ((std::uint64_t{1} << kCountShift) - 1)) -
                          std::uint64_t{sent} * (kUnitBytes + rule.scales);
    std::uint64_t scales = std::uint64_t{sent} * rule.scales;
    if (last != 0) {
      codes -= (kPacks - packs_in(rule, held)) * 4 * last;
      scales -= rule.scales - scales_in(rule, held);
    }
    start += (std::uint64_t{kUnitBytes} * sent + scales + 15) / 16 * 16 + codes;
  }
  __syncthreads();

  // The counts of pieces and the bounds of tiles follow from the starts of pieces.
  for (std::uint32_t k = threadIdx.x; k < pieces; k += kThreads) {
    const std::uint32_t p = piece_parameter[k];
    const bool is_last = k + 1 == pieces || piece_parameter[k + 1] != p;
    const DevicePiece& parameter = parameters[p];
    const std::uint64_t end = is_last ? parameter.first + parameter.count : own_pieces[k + 1].first;
    own_pieces[k].count = static_cast<std::uint32_t>(end - own_pieces[k].first);
    const std::uint32_t from = k == 0 ? 0 : piece_tile[k - 1] + 1;
    for (std::uint32_t tile = from; tile <= piece_tile[k]; ++tile) {
      own_bounds[tile] = {.first_piece = budget.first_piece + k,
                          .first_block = own_pieces[k].first_block};
    }
  }
  const std::uint32_t max_pieces = budget.parameters.piece_count + budget.tiles;
  for (std::uint32_t k = pieces + threadIdx.x; k < max_pieces; k += kThreads) own_pieces[k] = {};
  const BatchBounds rest{.first_piece = budget.first_piece + pieces,
                         .first_block = budget.parameters.first_block + budget.parameters.blocks};
  const std::uint32_t used = pieces == 0 ? 0 : piece_tile[pieces - 1] + 1;
  for (std::uint32_t tile = used + threadIdx.x; tile < budget.tiles; tile += kThreads) {
    own_bounds[tile] = rest;
  }
  __syncthreads();
  for (std::uint32_t tile = threadIdx.x; tile < budget.tiles; tile += kThreads) {
    const BatchBounds& next = tile + 1 == budget.tiles ? rest : own_bounds[tile + 1];
    own_bounds[tile].piece_count = next.first_piece - own_bounds[tile].first_piece;
    own_bounds[tile].blocks = next.first_block - own_bounds[tile].first_block;
  }
}

// One thread block per tile.
__global__ void __launch_bounds__(kThreads)
    lay_out(DeviceWidthRule rule, const DevicePiece* pieces, const BatchBounds* tiles,
            const std::uint8_t* widths, SuperGroupOffsets* offsets) {
  __shared__ union {
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
  } temp;
  __shared__ std::uint64_t whole;
  const BatchBounds tile = tiles[blockIdx.x];
  std::uint32_t base = 0;  // of the piece in the message
  for (std::uint32_t p = tile.first_piece; p < tile.first_piece + tile.piece_count; ++p) {
    const DevicePiece piece = pieces[p];
    const std::uint32_t blocks = blocks_of(piece.count);
    // Bytes of codes in the low half, super-groups with bytes in the high half.
    const auto share_of = [&](std::uint32_t j) -> std::uint64_t {
      const std::uint32_t width = widths[piece.first_block + j];
      if (width == 0) return 0;
      return packs_in(rule, held_in(piece, j)) * 4 * width | std::uint64_t{1} << 32;
    };
    std::uint64_t sum = 0;
    for (std::uint32_t j = threadIdx.x; j < blocks; j += kThreads) sum += share_of(j);
    sum = Reduce(temp.reduce).Sum(sum);
    if (threadIdx.x == 0) whole = sum;
    __syncthreads();
    const auto sent = static_cast<std::uint32_t>(whole >> 32);
    std::uint32_t scales = sent * rule.scales;
    if (blocks > 0 && widths[piece.first_block + blocks - 1] != 0) {
      scales -= rule.scales - scales_in(rule, held_in(piece, blocks - 1));
    }
    const std::uint32_t scales_at = base + kUnitBytes * sent;
    const std::uint32_t codes_at = base + up_to_16(kUnitBytes * sent + scales);

    std::uint64_t before = 0;
    for (std::uint32_t first = 0; first < blocks; first += kThreads) {
      const std::uint32_t j = first + threadIdx.x;
      std::uint64_t own = 0;
      std::uint64_t all = 0;
      Scan(temp.scan).ExclusiveSum(j < blocks ? share_of(j) : 0, own, all);
      if (j < blocks) {
        own += before;
        const auto index = static_cast<std::uint32_t>(own >> 32);
        offsets[piece.first_block + j] = {.units = base + kUnitBytes * index,
                                          .scales = scales_at + rule.scales * index,
                                          .codes = codes_at + static_cast<std::uint32_t>(own),
                                          .width = widths[piece.first_block + j]};
      }
      before += all;
      __syncthreads();
    }
    base = codes_at + static_cast<std::uint32_t>(whole);
    __syncthreads();
  }
}

}  // namespace

Status partition_tiles(const DeviceWidthRule& rule, const WidthTables& tables, std::uint32_t hop,
                       std::size_t value_size, const std::uint8_t* widths, cudaStream_t stream) {
  return launch("partition_tiles", partition, tables.budget_count, kThreads, stream, rule, tables,
                hop, value_size, widths);
}

Status lay_out_tiles(const DeviceWidthRule& rule, const WidthTables& tables,
                     const std::uint8_t* widths, SuperGroupOffsets* offsets, cudaStream_t stream) {
  return launch("lay_out_tiles", lay_out, tables.tiles, kThreads, stream, rule, tables.pieces,
                tables.bounds, widths, offsets);
}

}  // namespace nf::cuda
