// Widths, tiles and offsets of an all-reduce, computed on the device with the same results as
// collective/sum_plan.h. One thread block handles one job, and its sums are integers, so the result
// does not depend on the order of threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "codec/super_group_codec.h"
#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// SuperGroupCodec's format and width_rule() as a launch argument.
struct DeviceWidthRule {
  static constexpr std::size_t kMaxRungs = 10;

  DeviceWidthRule() = default;
  DeviceWidthRule(const SuperGroupCodec& codec, SumOrder order);

  Need need = Need::kEnergy;
  std::uint32_t rungs = 0;
  Rung ladder[kMaxRungs] = {};
  std::uint32_t scales = 0;     // bytes of scales per whole super-group
  bool pads_packs = false;      // SuperGroupFormat::pads_packs
  std::uint32_t min_width = 0;  // 0: the cost of a width includes unit and scales
  std::uint32_t ranks = 1;
};

// Parameters whose widths are chosen together, and their tiles: one SumPlan.
struct WidthBudget {
  BatchBounds parameters;        // in WidthTables::parameters
  std::uint32_t first_tile = 0;  // the tiles of budgets are consecutive
  std::uint32_t tiles = 0;
  std::uint32_t first_piece = 0;  // of its tiles, in WidthTables::pieces
  std::uint32_t hop = 0;       // whose widths determine the tile borders: SumPlan's placing stage
  std::uint64_t capacity = 0;  // bytes of that hop
  std::uint64_t share = 0;     // of these, per tile
};

// The tables of one layout, in device memory. `parameters` and `budgets` are inputs, the others are
// results. A budget has at most parameters + tiles pieces.
struct WidthTables {
  const DevicePiece* parameters = nullptr;  // one piece per parameter, with statistics
  std::uint32_t parameter_count = 0;
  const WidthBudget* budgets = nullptr;
  std::uint32_t budget_count = 0;

  std::uint32_t tiles = 0;
  DevicePiece* pieces = nullptr;  // of all tiles, in order; after those of a budget, empty ones
  BatchBounds* bounds = nullptr;  // by tile
  std::uint32_t* piece_parameter = nullptr;
  std::uint32_t* piece_tile = nullptr;
  float* weights = nullptr;  // scratch: one per piece
};

// The capacity of tiles whose widths choose_tile_widths() does not change.
inline constexpr std::uint64_t kKeepWidths = ~std::uint64_t{0};

// The first two only treat budgets of this hop.
// Chooses the widths of all parameters of a budget together.
Status choose_widths(const DeviceWidthRule& rule, const WidthTables& tables, std::uint32_t hop,
                     std::uint8_t* widths, cudaStream_t stream);
// Partitions the parameters of a budget into its tiles at these widths.
Status partition_tiles(const DeviceWidthRule& rule, const WidthTables& tables, std::uint32_t hop,
                       std::size_t value_size, const std::uint8_t* widths, cudaStream_t stream);
// Chooses the widths of each tile separately, within its capacity in bytes.
Status choose_tile_widths(const DeviceWidthRule& rule, const WidthTables& tables,
                          const std::uint64_t* capacities, std::uint8_t* widths,
                          cudaStream_t stream);
// Computes the offsets of all super-groups in the messages of their tiles.
Status lay_out_tiles(const DeviceWidthRule& rule, const WidthTables& tables,
                     const std::uint8_t* widths, SuperGroupOffsets* offsets, cudaStream_t stream);

}  // namespace nf::cuda
