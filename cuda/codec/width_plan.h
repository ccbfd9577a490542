// Widths, tiles and places of a sum, chosen on the device (collective/sum_plan.h says how, and the
// results are the same). One block of threads handles one job, and the sums that a job needs are
// integers, so nothing depends on the order of threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "codec/super_group_codec.h"
#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// What a launch must know of a codec: SuperGroupCodec's format and width_rule(), by value.
struct DeviceWidthRule {
  static constexpr std::size_t kMostRungs = 10;

  DeviceWidthRule() = default;
  DeviceWidthRule(const SuperGroupCodec& codec, SumOrder order);

  Need need = Need::kEnergy;
  std::uint32_t rungs = 0;
  Rung ladder[kMostRungs] = {};
  std::uint32_t scales = 0;       // bytes of scales a whole super-group
  std::uint32_t least_width = 0;  // 0: units and scales count among what widths cost
  std::uint32_t ranks = 1;
};

// The tables of one layout, in device memory. `parameters` and `whole` are given, the others are
// results. There are at most parameters + tiles pieces.
struct WidthTables {
  const DevicePiece* parameters = nullptr;  // each as one piece; they have statistics
  std::uint32_t parameter_count = 0;
  std::uint32_t super_groups = 0;
  const BatchBounds* whole = nullptr;  // of all parameters together

  std::uint32_t tiles = 0;
  DevicePiece* pieces = nullptr;         // of all tiles, in order
  BatchBounds* bounds = nullptr;         // by tile
  std::uint32_t* piece_count = nullptr;  // one number
  std::uint32_t* piece_parameter = nullptr;
  std::uint32_t* piece_tile = nullptr;
  float* weights = nullptr;  // room for parameters + tiles
};

// Chooses the widths of all parameters together, within `capacity` bytes.
Status choose_widths(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t capacity,
                     std::uint8_t* widths, cudaStream_t stream);
// Cuts the parameters into tiles of about `share` bytes at these widths.
Status place_tiles(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t share,
                   std::size_t value_size, const std::uint8_t* widths, cudaStream_t stream);
// Chooses the widths of every tile by itself, within `capacity` bytes each.
Status choose_tile_widths(const DeviceWidthRule& rule, const WidthTables& tables,
                          std::uint64_t capacity, std::uint8_t* widths, cudaStream_t stream);
// Says where every super-group lies in the message of its tile.
Status lay_out_tiles(const DeviceWidthRule& rule, const WidthTables& tables,
                     const std::uint8_t* widths, SuperGroupPlace* places, cudaStream_t stream);

}  // namespace nf::cuda
