// Cuts the values of a bucket into chunks and tiles.
//
// A tile is the content of one message: consecutive granules, possibly of several parameters. If
// the codec chooses widths, tiles are cut to about the same number of bytes and padded to one size
// that depends only on the sizes of the parameters and the budget, so no size is ever sent.
// Otherwise tiles have about the same number of values, which determines their size.
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
  // Cuts `domain` into `chunks`, each into tiles of about tile_bytes.
  void cut(const Codec& codec, std::span<const Piece> domain, std::uint32_t chunks,
           std::size_t tile_bytes);
  // For codecs that choose widths: sets the tile borders by the `widths` of each whole parameter.
  void place(const Codec& codec, std::span<const Piece> domain,
             std::span<const std::span<const std::uint8_t>> widths);
  // Cuts into tiles of equal granule counts.
  void cut_evenly(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                  std::uint32_t tiles_per_chunk = 1);

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(tiles_ / tiles_per_chunk_); }
  std::uint32_t tiles_per_chunk() const { return tiles_per_chunk_; }
  std::span<const Piece> pieces(std::uint32_t chunk, std::uint32_t tile) const;
  // Replaces `out` by the pieces of a whole chunk, merged across its tiles.
  void pieces_of(std::uint32_t chunk, std::vector<Piece>& out) const;
  // The size of all messages if the codec chooses widths, otherwise 0.
  std::size_t padded_size() const { return padded_size_; }
  // The bytes that place() puts into a tile, before rounding up to whole granules.
  std::size_t share() const { return share_; }

 private:
  void share_granules(std::size_t granule, std::span<const Piece> domain);
  void append(std::size_t tile, Piece piece);
  void finish() { first_piece_.resize(tiles_ + 1, pieces_.size()); }

  std::size_t tiles_ = 0;
  std::uint32_t tiles_per_chunk_ = 1;
  std::size_t share_ = 0;
  std::size_t padded_size_ = 0;
  std::vector<Piece> pieces_;             // in order
  std::vector<std::size_t> first_piece_;  // by tile, and one more at the end
  std::vector<std::size_t> counts_;       // of the domain
};

}  // namespace nf
