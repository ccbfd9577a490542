// Offsets of super-groups in a message (docs/codecs/waterfill.md, docs/codecs/dynamiq.md), and the
// padding between and after them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/super_group.cuh"

namespace nf::device {

// The unit with which a super-group of width 0 decodes: 0, so that it decodes to the mean, or NaN
// if any rank's values contain NaN or Inf.
__device__ __forceinline__ float left_out_unit(std::uint32_t energy) {
  return __uint_as_float(energy < kInfinityBits ? 0 : std::uint32_t{kBfloat16Nan} << 16);
}

// The layout of a message (cuda::DeviceMessageOf).
struct SuperGroupLayout {
  const std::uint64_t* piece_at = nullptr;
  const cuda::SuperGroupOffsets* offsets = nullptr;
  unsigned width = 0;  // of all super-groups, or 0 if `offsets` contains the widths
};

// The bytes of scales of `count` values.
template <unsigned kScaleBytes>
__device__ __forceinline__ std::uint64_t scales_of(std::uint32_t count) {
  if constexpr (kScaleBytes == 0) {
    return 0;
  } else {
    constexpr std::uint32_t kValues = kSuperGroup / kScaleBytes;
    return (std::uint64_t{count} + kValues - 1) / kValues;
  }
}

// The packs of codes of `count` values.
template <bool kPadsPacks>
__device__ __forceinline__ std::size_t coded_packs(std::uint32_t count) {
  if constexpr (!kPadsPacks) return packs_of(count);
  return (std::size_t{count} + kSuperGroup - 1) / kSuperGroup * kSuperGroupPacks;
}

// Offsets of the arrays of a piece whose super-groups all have one width. kScaleBytes: bytes of
// scales per super-group.
template <unsigned kScaleBytes>
struct PieceLayout {
  std::uint64_t units = 0;
  std::uint64_t scales = 0;
  std::uint64_t scales_end = 0;
  std::uint64_t codes = 0;

  __device__ PieceLayout(std::uint64_t start, std::uint32_t count) : units(start) {
    scales = start + 2 * ((std::uint64_t{count} + kSuperGroup - 1) / kSuperGroup);
    scales_end = scales + scales_of<kScaleBytes>(count);
    codes = start + (scales_end - start + 15) / 16 * 16;
  }
};

// The offsets of super-group i of a segment.
template <unsigned kScaleBytes>
__device__ __forceinline__ cuda::SuperGroupOffsets offsets_of(const SuperGroupLayout& layout,
                                                              const Segment& segment,
                                                              std::uint32_t i) {
  if (i >= segment.count) return {};
  if (layout.offsets != nullptr) return layout.offsets[segment.block + i];
  const PieceLayout<kScaleBytes> piece(layout.piece_at[segment.piece_index], segment.piece.count);
  const std::uint32_t at = segment.first + i;
  return {static_cast<std::uint32_t>(piece.units) + 2 * at,
          static_cast<std::uint32_t>(piece.scales) + kScaleBytes * at,
          static_cast<std::uint32_t>(piece.codes) +
              static_cast<std::uint32_t>(kSuperGroup / 8) * layout.width * at,
          layout.width};
}

// If the segment contains the last super-group of its piece, clears the bytes between the scales
// and the codes of the piece.
template <unsigned kScaleBytes>
__device__ __forceinline__ void clear_padding(const SuperGroupLayout& layout,
                                              const Segment& segment, std::byte* message) {
  if (!segment.ends_piece()) return;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  if (layout.offsets != nullptr) {
    const cuda::SuperGroupOffsets last = layout.offsets[segment.block + segment.count - 1];
    const std::uint32_t held = segment.held(segment.count - 1);
    from = last.scales + (last.width == 0 ? 0 : scales_of<kScaleBytes>(held));
    to = layout.offsets[segment.piece.first_block].codes;
  } else {
    const PieceLayout<kScaleBytes> piece(layout.piece_at[segment.piece_index], segment.piece.count);
    from = piece.scales_end;
    to = piece.codes;
  }
  const std::uint64_t at = from + threadIdx.x % kWarp;
  if (at < to) message[at] = std::byte{0};
}

// Clears the bytes after the last piece of a message; all threads of the grid take part.
template <unsigned kScaleBytes, bool kPadsPacks>
__device__ __forceinline__ void clear_rest(const SuperGroupJob& job, const SuperGroupLayout& layout,
                                           std::byte* message, std::uint64_t size) {
  std::uint64_t end = 0;
  if (job.blocks > 0) {
    if (layout.offsets != nullptr) {
      const std::uint32_t block = job.first_block + job.blocks - 1;
      const std::uint32_t count = job.pieces[piece_of(job.pieces, job.piece_count, block)].count;
      const std::uint32_t held = (count - 1) % kSuperGroup + 1;
      end = layout.offsets[block].codes +
            coded_packs<kPadsPacks>(held) * pack_bytes(layout.offsets[block].width);
    } else {
      const std::uint32_t last = job.piece_count - 1;
      const std::uint32_t count = job.pieces[last].count;
      const PieceLayout<kScaleBytes> piece(layout.piece_at[last], count);
      end = piece.codes + coded_packs<kPadsPacks>(count) * pack_bytes(layout.width);
    }
  }
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t at = end + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < size;
       at += stride) {
    message[at] = std::byte{0};
  }
}

}  // namespace nf::device
