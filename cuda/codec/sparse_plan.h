// Widths, tiles and places of the blocks of a sparse codec, chosen on the device: what
// SparseCodec::choose_widths() and TileMap::place() do, with the same results. All of it follows
// from bytes of blocks, whole numbers that are added in order, so nothing depends on the order of
// threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/sparse/sparse_codec.h"
#include "cuda/codec/device_codec.h"

namespace nf::cuda {

// SparseFormat as launches take it.
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

// The first key from the top whose blocks do not all fit, 0 where there is none.
struct SparseLevel {
  std::uint32_t key = 0;
  std::uint64_t spare = 0;   // bytes for blocks of that key
  std::uint64_t filled = 0;  // of these, by blocks in order up to the first that does not fit
};

// The tables of one layout, in device memory. Those of parameters are given, the others are results
// and room for them.
struct SparseTables {
  const DevicePiece* parameters = nullptr;  // each as one piece; they have statistics
  std::uint32_t parameter_count = 0;
  std::uint32_t blocks = 0;
  std::uint32_t tiles = 0;

  std::uint8_t* widths = nullptr;     // by block
  SuperGroupPlace* places = nullptr;  // by block
  BatchBounds* bounds = nullptr;      // by tile, of `parameters`

  SparseLevel* level = nullptr;          // one
  std::uint64_t* bytes_at = nullptr;     // by key below poison
  std::uint64_t* span_sums = nullptr;    // sparse_spans()
  std::uint64_t* tile_starts = nullptr;  // by tile, among the bytes of all
};

// Of so many blocks: how many stretches of them thread blocks take.
std::size_t sparse_spans(std::uint32_t blocks);

// Chooses which blocks are sent, within `capacity` bytes.
Status choose_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t capacity,
                     cudaStream_t stream);
// Cuts the blocks into tiles of about `share` bytes and says where each lies in its tile's message.
Status place_blocks(const SparseShape& shape, const SparseTables& tables, std::uint64_t share,
                    cudaStream_t stream);

// On the host, for messages of one slice: where its blocks lie if its first bytes lie at `start`.
std::vector<SuperGroupPlace> places_of_blocks(const Codec& codec, const Slice& slice,
                                              std::size_t start);

}  // namespace nf::cuda
