#include "collective/tile_size.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "neuron_fabric/codec.h"

namespace nf {
namespace {

constexpr std::size_t kTile = 256 << 10;

std::size_t size_of_tiles(std::string_view codec, std::size_t values, std::uint32_t chunks) {
  const std::array<Piece, 2> domain = {
      {{.parameter = 0, .first = 0, .count = values / 2},
       {.parameter = 1, .first = 0, .count = values - values / 2}}};
  return tile_size(**make_codec(codec), domain, chunks, kTile);
}

TEST(TileSize, CutsDenseChunksIntoFourTiles) {
  EXPECT_EQ(size_of_tiles("fp32", std::size_t{2} << 20, 4), std::size_t{512} << 10);
  EXPECT_EQ(size_of_tiles("bf16", std::size_t{4} << 20, 4), std::size_t{512} << 10);
  EXPECT_EQ(size_of_tiles("fp16", std::size_t{4} << 20, 2), std::size_t{1} << 20);
}

TEST(TileSize, KeepsDenseTilesBetweenTheOptionAndFourTimesIt) {
  EXPECT_EQ(size_of_tiles("fp32", 0, 4), kTile);
  EXPECT_EQ(size_of_tiles("fp32", std::size_t{1} << 20, 4), kTile);
  EXPECT_EQ(size_of_tiles("fp32", std::size_t{1} << 28, 4), 4 * kTile);
}

// The results of these codecs, and the padding of their messages, may depend on their tiles.
TEST(TileSize, LeavesTheTilesOfOtherCodecs) {
  for (const std::string_view codec : {"waterfill:4", "dynamiq:4", "mxfp8", "g_binary", "thc"}) {
    EXPECT_EQ(size_of_tiles(codec, std::size_t{1} << 28, 4), kTile) << codec;
  }
}

}  // namespace
}  // namespace nf
