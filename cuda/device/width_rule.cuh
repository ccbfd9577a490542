// Shared by width_choice.cu and tile_layout.cu: sizes of super-groups, and sums over a thread
// block.
#pragma once

#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "codec/codes.h"
#include "codec/super_group.h"
#include "cuda/codec/width_plan.h"

namespace nf::device {

using cuda::DevicePiece;
using cuda::DeviceWidthRule;

inline constexpr std::uint32_t kPacks = kSuperGroup / kPack;
inline constexpr std::uint32_t kUnitBytes = 2;
inline constexpr std::uint32_t kSuper = kSuperGroup;  // 32 bits, for device arithmetic

inline constexpr unsigned kPlanThreads = 1024;
using Scan = cub::BlockScan<std::uint64_t, kPlanThreads>;
using Reduce = cub::BlockReduce<std::uint64_t, kPlanThreads>;

__device__ inline std::uint32_t blocks_of(std::uint32_t count) {
  return (count + kSuper - 1) / kSuper;
}

__device__ inline std::uint32_t held_in(const DevicePiece& piece, std::uint32_t block) {
  return min(kSuper, piece.count - block * kSuper);
}

// Packs of codes for `held` values of one super-group.
__device__ inline std::uint32_t packs_in(const DeviceWidthRule& rule, std::uint32_t held) {
  if (rule.pads_packs) return kPacks;
  return (held + std::uint32_t{kPack} - 1) / std::uint32_t{kPack};
}

// Bytes of scales for `held` values of one super-group.
__device__ inline std::uint32_t scales_in(const DeviceWidthRule& rule, std::uint32_t held) {
  if (rule.scales == 0) return 0;
  const std::uint32_t per_byte = kSuper / rule.scales;
  return (held + per_byte - 1) / per_byte;
}

__device__ inline std::uint32_t up_to_16(std::uint32_t bytes) { return (bytes + 15) / 16 * 16; }

__device__ inline std::uint32_t granule_bytes(const DeviceWidthRule& rule, std::uint32_t width) {
  return width == 0 ? 0 : kUnitBytes + rule.scales + kPacks * 4 * width;
}

}  // namespace nf::device
