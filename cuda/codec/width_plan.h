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
  std::uint32_t min_width = 0;  // 0: the cost of a width includes unit and scales
  std::uint32_t ranks = 1;
};

// The tables of one layout, in device memory. `parameters` and `whole` are inputs, the others are
// results. There are at most parameters + tiles pieces.
struct WidthTables {
  const DevicePiece* parameters = nullptr;  // one piece per parameter, with statistics
  std::uint32_t parameter_count = 0;
  std::uint32_t super_groups = 0;
  const BatchBounds* whole = nullptr;  // all parameters together

  std::uint32_t tiles = 0;
  DevicePiece* pieces = nullptr;         // of all tiles, in order
  BatchBounds* bounds = nullptr;         // by tile
  std::uint32_t* piece_count = nullptr;  // one number
  std::uint32_t* piece_parameter = nullptr;
  std::uint32_t* piece_tile = nullptr;
  float* weights = nullptr;  // scratch: one per piece
};

// Chooses the widths of all parameters together, within `capacity` bytes.
Status choose_widths(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t capacity,
                     std::uint8_t* widths, cudaStream_t stream);
// Partitions the parameters into tiles of about `share` bytes at these widths.
Status partition_tiles(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t share,
                       std::size_t value_size, const std::uint8_t* widths, cudaStream_t stream);
// Chooses the widths of each tile separately, within `capacity` bytes per tile.
Status choose_tile_widths(const DeviceWidthRule& rule, const WidthTables& tables,
                          std::uint64_t capacity, std::uint8_t* widths, cudaStream_t stream);
// Computes the offsets of all super-groups in the messages of their tiles.
Status lay_out_tiles(const DeviceWidthRule& rule, const WidthTables& tables,
                     const std::uint8_t* widths, SuperGroupOffsets* offsets, cudaStream_t stream);

}  // namespace nf::cuda
