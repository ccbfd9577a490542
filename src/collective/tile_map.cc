#include "collective/tile_map.h"

#include <algorithm>

namespace nf {
namespace {

// Cutting a parameter makes two slices; each may be padded to a multiple of 16 bytes.
constexpr std::size_t kCutPadding = 32;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

std::size_t granules_of(std::span<const Piece> domain, std::size_t granule) {
  std::size_t sum = 0;
  for (const Piece& piece : domain) sum += divide_up(piece.count, granule);
  return sum;
}

}  // namespace

void TileMap::cut(const Codec& codec, std::span<const Piece> domain, std::uint32_t chunks,
                  std::size_t tile_bytes) {
  counts_.clear();
  for (const Piece& piece : domain) counts_.push_back(piece.count);
  const std::size_t bytes = codec.payload_capacity(counts_);
  const std::size_t granules = granules_of(domain, codec.granule());

  const std::size_t wanted =
      divide_up(divide_up(bytes, chunks), std::max<std::size_t>(tile_bytes, 1));
  const std::size_t most = std::max<std::size_t>(divide_up(granules, chunks), 1);
  tiles_per_chunk_ = static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, 1, most));
  tiles_ = std::size_t{chunks} * tiles_per_chunk_;
  share_ = std::max<std::size_t>(divide_up(bytes, tiles_), 1);
  padded_size_ = 0;
  if (codec.max_width() == 0) {
    share_granules(codec.granule(), domain);
  } else {
    padded_size_ = std::min(share_ + codec.granule_size(codec.max_width()), bytes) + kCutPadding;
  }
}

void TileMap::cut_evenly(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                         std::uint32_t tiles_per_chunk) {
  tiles_per_chunk_ = tiles_per_chunk;
  tiles_ = std::size_t{chunks} * tiles_per_chunk;
  padded_size_ = 0;
  share_granules(granule, domain);
}

// Divides the granules of all pieces into equal shares, in order.
void TileMap::share_granules(std::size_t granule, std::span<const Piece> domain) {
  pieces_.clear();
  first_piece_.assign(1, 0);
  const std::size_t granules = granules_of(domain, granule);
  std::size_t before = 0;
  for (const Piece& piece : domain) {
    const std::size_t held = divide_up(piece.count, granule);
    for (std::size_t g = 0; g < held;) {
      const std::size_t tile = (before + g) * tiles_ / granules;
      const std::size_t border = divide_up((tile + 1) * granules, tiles_);
      const std::size_t end = std::min(border - before, held);
      append(tile, {piece.parameter, piece.first + g * granule,
                    std::min(end * granule, piece.count) - g * granule});
      g = end;
    }
    before += held;
  }
  finish();
}

void TileMap::place(const Codec& codec, std::span<const Piece> domain,
                    std::span<const std::span<const std::uint8_t>> widths) {
  pieces_.clear();
  first_piece_.assign(1, 0);
  const std::size_t granule = codec.granule();
  std::size_t start = 0;  // byte offset of the piece
  for (const Piece& piece : domain) {
    const std::size_t held = divide_up(piece.count, granule);
    const auto own = widths[piece.parameter].subspan(piece.first / granule, held);
    std::size_t offset = start;
    std::size_t first = 0;
    std::size_t tile = std::min(offset / share_, tiles_ - 1);
    for (std::size_t g = 0; g < held; ++g) {
      if (const std::size_t here = std::min(offset / share_, tiles_ - 1); here != tile) {
        append(tile, {piece.parameter, piece.first + first * granule, (g - first) * granule});
        tile = here;
        first = g;
      }
      offset += codec.granule_size(own[g]);
    }
    if (held > 0) {
      append(tile, {piece.parameter, piece.first + first * granule, piece.count - first * granule});
    }
    start += codec.encoded_size(Slice{.count = piece.count, .widths = own}, 1);
  }
  finish();
}

void TileMap::append(std::size_t tile, Piece piece) {
  first_piece_.resize(std::max(first_piece_.size(), tile + 1), pieces_.size());
  pieces_.push_back(piece);
}

std::span<const Piece> TileMap::pieces(std::uint32_t chunk, std::uint32_t tile) const {
  const std::size_t at = std::size_t{chunk} * tiles_per_chunk_ + tile;
  return std::span(pieces_).subspan(first_piece_[at], first_piece_[at + 1] - first_piece_[at]);
}

void TileMap::pieces_of(std::uint32_t chunk, std::vector<Piece>& out) const {
  out.clear();
  for (std::uint32_t tile = 0; tile < tiles_per_chunk_; ++tile) {
    for (const Piece& piece : pieces(chunk, tile)) {
      if (!out.empty() && out.back().parameter == piece.parameter) {
        out.back().count += piece.count;  // tiles of one chunk are adjacent
      } else {
        out.push_back(piece);
      }
    }
  }
}

}  // namespace nf
