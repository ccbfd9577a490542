// Cuts the values of a bucket into chunks and tiles.
//
// A tile is what one message holds: consecutive granules, perhaps of several parameters. Where a
// codec chooses widths, tiles are cut so that they have about the same number of bytes, whatever
// their widths, and are padded to one size that follows from the parameters' sizes and the budget
// alone: no size is ever exchanged. Else they have about the same number of values, and their sizes
// follow from those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/codec.h"

namespace nf {

// Values [first, first + count) of one of the parameters. Starts at a multiple of the granule.
struct Piece {
  std::size_t parameter = 0;  // index
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

class TileMap {
 public:
  // Cuts `domain` into `chunks`, each of as many tiles as tile_bytes asks for.
  void cut(const Codec& codec, std::span<const Piece> domain, std::uint32_t chunks,
           std::size_t tile_bytes);
  // Where the codec chooses widths, borders follow them: `widths` of each whole parameter.
  void place(const Codec& codec, std::span<const Piece> domain,
             std::span<const std::span<const std::uint8_t>> widths);
  // The same number of granules for each, whatever the codec.
  void cut_evenly(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                  std::uint32_t tiles_per_chunk = 1);

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(tiles_ / tiles_per_chunk_); }
  std::uint32_t tiles_per_chunk() const { return tiles_per_chunk_; }
  std::span<const Piece> pieces(std::uint32_t chunk, std::uint32_t tile) const;
  // Those of a whole chunk, as few as there can be, instead of what `out` holds.
  void pieces_of(std::uint32_t chunk, std::vector<Piece>& out) const;
  // Of all messages, where the codec chooses widths; else 0, and they are as long as they are.
  std::size_t padded_size() const { return padded_size_; }
  // About how many bytes place() gives a tile.
  std::size_t share() const { return share_; }

 private:
  void share_granules(std::size_t granule, std::span<const Piece> domain);
  void append(std::size_t tile, Piece piece);
  void finish() { first_piece_.resize(tiles_ + 1, pieces_.size()); }

  std::size_t tiles_ = 0;
  std::uint32_t tiles_per_chunk_ = 1;
  std::size_t share_ = 0;  // bytes a tile, before rounding up to whole granules
  std::size_t padded_size_ = 0;
  std::vector<Piece> pieces_;             // in order
  std::vector<std::size_t> first_piece_;  // by tile, and one more at the end
  std::vector<std::size_t> counts_;       // of the domain
};

}  // namespace nf
