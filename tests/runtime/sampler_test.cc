#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "neuron_fabric/codec.h"
#include "support/spellings.h"

namespace nf {
namespace {

using Counts = std::vector<std::size_t>;

constexpr std::size_t kStride = Sampler::kStride;
constexpr std::size_t kMost = Sampler::kMaxValues;

// All sampled pieces, by parameter and first value.
std::map<std::pair<std::size_t, std::size_t>, std::size_t> pieces_of(const Sampler& sampler,
                                                                     std::uint64_t every = 1) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> pieces;
  for (std::uint64_t i = 0; i < 50ull * sampler.pieces(); ++i) {
    const Piece piece = sampler.at(i * every);
    pieces[{piece.parameter, piece.first}] = piece.count;
  }
  return pieces;
}

TEST(Sampler, CoversEveryValueOnce) {
  const Counts counts = {1,    kStride,         kStride + 1, kMost,      kMost + 1,
                         1024, 5 * kStride - 1, 0,           10 * kMost, 3 * kStride + 24'577};
  const Sampler sampler(counts);
  const auto pieces = pieces_of(sampler);
  EXPECT_EQ(pieces.size(), sampler.pieces());
  Counts covered(counts.size(), 0);
  for (const auto& [place, count] : pieces) {
    const auto& [parameter, first] = place;
    EXPECT_EQ(first, covered[parameter]) << "pieces must be contiguous";
    EXPECT_EQ(first % kStride, 0u);
    EXPECT_LE(count, kMost);
    EXPECT_GT(count, 0u);
    covered[parameter] += count;
  }
  EXPECT_EQ(covered, counts);
}

TEST(Sampler, HasNoSmallPiecesOfLargeParameters) {
  for (const std::size_t count : {kMost + 1, 2 * kStride + 1, 3 * kStride - 1, 5 * kMost}) {
    for (const auto& [place, values] : pieces_of(Sampler(Counts{count}))) {
      EXPECT_GT(values, kMost - kStride);
    }
  }
}

// For example, if only every 16th step is monitored.
TEST(Sampler, ReachesEveryPieceForAnyInterval) {
  for (const std::size_t pieces : {1u, 2u, 16u, 32u, 37u, 100u, 960u}) {
    const Sampler sampler(Counts(pieces, 5000));
    for (const std::uint64_t every : {1u, 2u, 16u, 50u}) {
      EXPECT_EQ(pieces_of(sampler, every).size(), pieces) << pieces << " " << every;
    }
  }
}

TEST(Sampler, SamplesDistantPieces) {
  const Sampler sampler(Counts(100, 5000));
  for (std::uint64_t step = 0; step < 1000; ++step) {
    std::set<std::size_t> tenths;
    for (std::uint64_t next = step; next < step + 20; ++next) {
      tenths.insert(sampler.at(next).parameter / 10);
    }
    EXPECT_EQ(tenths.size(), 10u) << "of twenty steps from " << step;
  }
}

TEST(Sampler, IsEmptyWithoutValues) {
  EXPECT_EQ(Sampler(Counts{}).at(5), Piece{});
  EXPECT_EQ(Sampler(Counts{0, 0}).at(5), Piece{});
}

TEST(Sampler, StartsAtTheGranulesOfAllCodecs) {
  for (const std::string& spelling : test::codec_spellings()) {
    EXPECT_EQ(kStride % (*make_codec(spelling))->granule(), 0u) << spelling;
  }
}

}  // namespace
}  // namespace nf
