#include "collective/tile_size.h"

#include <algorithm>

namespace nf {
namespace {

constexpr std::size_t kTilesPerDenseChunk = 4;
constexpr std::size_t kMaxDenseGrowth = 4;

}  // namespace

std::size_t tile_size(const Codec& codec, std::span<const Piece> domain, std::uint32_t chunks,
                      std::size_t tile_bytes) {
  if (codec.kind() != CodecKind::kDense) return tile_bytes;
  std::size_t bytes = 0;
  for (const Piece& piece : domain) bytes += codec.encoded_size({.count = piece.count}, 1);
  return std::clamp(bytes / chunks / kTilesPerDenseChunk, tile_bytes, kMaxDenseGrowth * tile_bytes);
}

}  // namespace nf
