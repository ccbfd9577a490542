// Widths, tiles and offsets of the blocks of a sparse codec, computed on the device with the same
// results as SparseCodec::choose_widths() and TileMap::place(). They follow from sums of integers,
// so the result does not depend on the order of threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/sparse/sparse_codec.h"
#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// SparseFormat as a launch argument.
struct SparseShape {
  SparseShape() = default;
  explicit SparseShape(const SparseFormat& format)
      : block(static_cast<std::uint32_t>(format.block)),
        key_bytes(static_cast<std::uint32_t>(format.key_bytes)),
        poison(format.poison) {}

  std::uint32_t block = 0;  // values
  std::uint32_t key_bytes = 0;
  std::uint32_t poison = 0;
};

// The largest key whose blocks do not all fit, or 0 if all blocks fit.
struct SparseLevel {
  std::uint32_t key = 0;
  std::uint64_t spare = 0;   // bytes for blocks of that key
  std::uint64_t filled = 0;  // of these, used by blocks in order up to the first that does not fit
};

// The tables of one layout, in device memory. `parameters` is input, the others are results and
// scratch memory.
struct SparseTables {
  const DevicePiece* parameters = nullptr;  // one piece per parameter, with statistics
  std::uint32_t parameter_count = 0;
  std::uint32_t blocks = 0;
  std::uint32_t tiles = 0;

  std::uint8_t* widths = nullptr;        // by block
  SuperGroupOffsets* offsets = nullptr;  // by block
  BatchBounds* bounds = nullptr;         // by tile, of `parameters`

  SparseLevel* level = nullptr;          // one
  std::uint64_t* bytes_at = nullptr;     // by key below poison
  std::uint64_t* span_sums = nullptr;    // sparse_spans()
  std::uint64_t* tile_starts = nullptr;  // first byte of each tile among the bytes of all
};

// The number of spans, the units of work of a thread block, of `blocks` blocks.
std::size_t sparse_spans(std::uint32_t blocks);

// Chooses the blocks to send, within `capacity` bytes.
Status choose_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t capacity,
                     cudaStream_t stream);
// Partitions the blocks into tiles of about `share` bytes and computes their offsets in the tiles'
// messages.
Status lay_out_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t share,
                      cudaStream_t stream);

// On the host: the offsets of the blocks of one slice whose bytes begin at `start`.
std::vector<SuperGroupOffsets> block_offsets(const Codec& codec, const Slice& slice,
                                             std::size_t start);

}  // namespace nf::cuda
