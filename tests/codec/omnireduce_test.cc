// Tests of omnireduce: the ladder of local lists and their union.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codec/sparse/ladder.h"
#include "neuron_fabric/codec.h"
#include "sparse_blocks.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

using testing::ElementsAre;
using Ranks = std::vector<TypedValues>;

class Omnireduce : public testing::TestWithParam<Isa> {
 protected:
  std::unique_ptr<Codec> make(const std::string& budget) const {
    return make_for(GetParam(), "omnireduce:" + budget + "+block=32");
  }

  static std::vector<int> keys_of(const Codec& codec, const TypedValues& values) {
    std::vector<int> keys;
    for (const std::byte key : statistics_of(codec, values.view())) {
      keys.push_back(std::to_integer<int>(key));
    }
    return keys;
  }
};

INSTANTIATE_TEST_SUITE_P(Codec, Omnireduce, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(Omnireduce, KeyOfABlockIsTheHighestRungThatListsIt) {
  const std::unique_ptr<Codec> codec = make("8");
  // With four blocks, rung 1 lists 4, rungs 2 to 4 list 3, rungs 5 to 9 list 2 and higher rungs 1.
  EXPECT_THAT(keys_of(*codec, blocks_of({1, 4, 2, 3})), ElementsAre(1, 254, 4, 9));
  EXPECT_THAT(keys_of(*codec, blocks_of({1, 1, 1, 1})), ElementsAre(254, 9, 4, 1));
  EXPECT_THAT(keys_of(*codec, blocks_of({1e-9f})), ElementsAre(254));
}

TEST_P(Omnireduce, HasSpecialKeysForZerosAndNonFiniteValues) {
  const std::unique_ptr<Codec> codec = make("8");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(keys_of(*codec, blocks_of({0, 1, infinity, -0.0f})), ElementsAre(0, 9, 255, 0));
}

TEST_P(Omnireduce, LengthsOfListsDifferByAnEighthOfAnOctave) {
  Generator random(1);
  constexpr std::size_t kBlocks = 5000;
  const std::unique_ptr<Codec> codec = make("8");
  const TypedValues values(DataType::kFloat32, random.normal(kBlocks * kBlockValues));
  const std::vector<int> keys = keys_of(*codec, values);
  for (int rung = 1; rung <= 254; ++rung) {
    const auto listed = std::ranges::count_if(keys, [&](int key) { return key >= rung; });
    const double expected = std::max(1.0, kBlocks * std::exp2(-(rung - 1) / 8.0));
    EXPECT_NEAR(static_cast<double>(listed), expected, 1) << "rung " << rung;
  }
}

TEST_P(Omnireduce, SendsTheUnionOfTheListsOfAllRanks) {
  // The budget allows two blocks. By norm alone, both would be blocks of the second rank.
  const std::unique_ptr<Codec> codec = make("8.5");
  const Ranks by_rank = {blocks_of({2, 1, 1, 1}), blocks_of({50, 60, 70, 100})};
  const CodecContext context(*codec, by_rank);
  EXPECT_THAT(context.widths(), ElementsAre(16, 0, 0, 16));
  const std::uint32_t order[] = {0, 1};
  const Message sum = chain(*codec, context.whole(), by_rank, order);
  EXPECT_EQ(sum.size(), 2 * 2 * kBlockValues);
  EXPECT_TRUE(same_bits(decode(*codec, context.whole(), {1, 2}, sum),
                        blocks_of({52, 0, 0, 101}).widened()));
}

TEST_P(Omnireduce, SpendsTheRestOnTheFirstBlocksOfTheNextList) {
  // The budget allows three blocks: the largest of each parameter and one of the two second
  // largest.
  const std::unique_ptr<Codec> codec = make("6.5");
  const std::vector<Ranks> parameters = {{blocks_of({1, 2, 3, 4})}, {blocks_of({9, 8, 7, 6})}};
  const std::vector<CodecContext> contexts = CodecContext::for_parameters(*codec, parameters);
  EXPECT_THAT(contexts[0].widths(), ElementsAre(0, 0, 16, 16));
  EXPECT_THAT(contexts[1].widths(), ElementsAre(16, 0, 0, 0));
}

TEST_P(Omnireduce, DecodesBlocksWithNonFiniteValuesToNanWithoutSendingThem) {
  const std::unique_ptr<Codec> codec = make("8.5");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Ranks by_rank = {blocks_of({1, 2, 3, 4}), blocks_of({nan, 2, 3, 4})};
  const CodecContext context(*codec, by_rank);
  EXPECT_THAT(context.widths(), ElementsAre(0, 0, 16, 16));
  const std::uint32_t order[] = {0, 1};
  const Message sum = chain(*codec, context.whole(), by_rank, order);
  EXPECT_TRUE(
      same_bits(decode(*codec, context.whole(), {1, 2}, sum), blocks_of({nan, 0, 6, 8}).widened()));
}

TEST_P(Omnireduce, StaysWithinItsBudgetForAnyNumberOfRanks) {
  Generator random(2);
  constexpr std::size_t kCount = 100003;
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "omnireduce:4");
  Ranks by_rank;
  for (const std::size_t ranks : {1u, 4u, 8u}) {
    while (by_rank.size() < ranks) {
      by_rank.emplace_back(DataType::kFloat32, random.mixture(kCount));
    }
    const CodecContext context(*codec, by_rank);
    const std::size_t bytes = codec->encoded_size(context.whole(), 1) + context.statistics().size();
    const double bits = 8.0 * static_cast<double>(bytes) / kCount;
    EXPECT_LE(bits, 4);
    EXPECT_GE(bits, 4 - 0.05);  // the unused rest is less than a block
  }
}

// CUDA kernels find rungs by bisection, the CPU by a walk along the order.
TEST(Ladder, BisectionFindsTheHighestRung) {
  for (const std::uint64_t blocks : {1u, 2u, 3u, 4u, 7u, 100u, 1000u, 65'537u}) {
    std::uint32_t rung = kMaxRung;
    for (std::uint64_t place = 0; place < blocks; ++place) {
      while (place >= blocks_on(rung, blocks)) --rung;
      ASSERT_EQ(highest_rung(place, blocks), rung) << place << " of " << blocks;
    }
  }
}

}  // namespace
}  // namespace nf::test
