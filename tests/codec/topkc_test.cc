// Tests of topkc: the blocks that are sent, computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codec/wire_bytes.h"
#include "neuron_fabric/codec.h"
#include "sparse_blocks.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ranks = std::vector<TypedValues>;

class Topkc : public testing::TestWithParam<Isa> {
 protected:
  std::unique_ptr<Codec> make(const std::string& budget) const {
    return make_for(GetParam(), "topkc:" + budget + "+block=32");
  }
};

INSTANTIATE_TEST_SUITE_P(Codec, Topkc, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(Topkc, SendsTheLargestBlocksThatFit) {
  const std::unique_ptr<Codec> codec = make("9");
  const Ranks by_rank = {blocks_of({1, 4, 2, 3})};
  const CodecContext context(*codec, by_rank);
  const Slice slice = context.whole();
  // Norms 32, 512, 128 and 288.
  const std::byte* norms = context.statistics().data();
  EXPECT_EQ(get_u16(norms), 0x4200);
  EXPECT_EQ(get_u16(norms + 2), 0x4400);
  EXPECT_EQ(get_u16(norms + 4), 0x4300);
  EXPECT_EQ(get_u16(norms + 6), 0x4390);
  // 9 bits per element are 144 bytes: 8 bytes of statistics and two blocks of 64 bytes.
  EXPECT_THAT(context.widths(), ElementsAre(0, 16, 0, 16));
  const Message message = encode(*codec, slice, {0, 1}, by_rank[0].view());
  ASSERT_EQ(message.size(), 2 * 2 * kBlockValues);
  EXPECT_EQ(get_u16(message.data()), 0x4080);                     // 4
  EXPECT_EQ(get_u16(message.data() + 2 * kBlockValues), 0x4040);  // 3
  EXPECT_TRUE(same_bits(decode(*codec, slice, {0, 1}, message), blocks_of({0, 4, 0, 3}).widened()));
  EXPECT_TRUE(same_bits(decode_add(*codec, slice, {0, 1}, message, by_rank[0]),
                        blocks_of({1, 8, 2, 6}).widened()));
}

TEST_P(Topkc, SelectsBlocksByTheNormOverAllRanks) {
  const std::unique_ptr<Codec> codec = make("5");
  const Ranks by_rank = {blocks_of({3, 2.5f, 0, 0}), blocks_of({0, 2.5f, 0, 1})};
  const CodecContext context(*codec, by_rank);
  EXPECT_THAT(context.widths(), ElementsAre(0, 16, 0, 0));
  const std::uint32_t order[] = {0, 1};
  const Message sum = chain(*codec, context.whole(), by_rank, order);
  EXPECT_TRUE(
      same_bits(decode(*codec, context.whole(), {1, 2}, sum), blocks_of({0, 5, 0, 0}).widened()));
}

TEST_P(Topkc, SendsTheFirstOfBlocksWithEqualNorms) {
  const std::unique_ptr<Codec> codec = make("9");
  EXPECT_THAT(CodecContext(*codec, Ranks{blocks_of({1, -1, 1, 1})}).widths(),
              ElementsAre(16, 16, 0, 0));
  EXPECT_THAT(CodecContext(*codec, Ranks{blocks_of({1, 1, 1, 2})}).widths(),
              ElementsAre(16, 0, 0, 16));
}

TEST_P(Topkc, SharesTheBudgetBetweenParameters) {
  const std::unique_ptr<Codec> codec = make("9");
  const std::vector<Ranks> parameters = {{blocks_of({1, 2})}, {blocks_of({4, 3})}};
  const std::vector<CodecContext> contexts = CodecContext::for_parameters(*codec, parameters);
  EXPECT_THAT(contexts[0].widths(), ElementsAre(0, 0));
  EXPECT_THAT(contexts[1].widths(), ElementsAre(16, 16));
}

TEST_P(Topkc, NeverSendsABlockOfZeros) {
  const std::unique_ptr<Codec> codec = make("16");
  // The square of 2^-80 is 2^-160, which is zero in FP32.
  const CodecContext context(*codec, Ranks{blocks_of({0, 1, -0.0f, 0x1p-80f})});
  EXPECT_THAT(context.widths(), ElementsAre(0, 16, 0, 0));
}

TEST_P(Topkc, DecodesBlocksWithNonFiniteValuesToNanWithoutSendingThem) {
  const std::unique_ptr<Codec> codec = make("9");
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::infinity(), 0x1p64f}) {
    SCOPED_TRACE(poison);
    const Ranks by_rank = {blocks_of({1, 2, 3, 4}), blocks_of({1, poison, 3, 4})};
    const CodecContext context(*codec, by_rank);
    const Slice slice = context.whole();
    EXPECT_THAT(context.widths(), ElementsAre(0, 0, 16, 16));
    const std::uint32_t order[] = {0, 1};
    const Message sum = chain(*codec, slice, by_rank, order);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(same_bits(decode(*codec, slice, {1, 2}, sum), blocks_of({0, nan, 6, 8}).widened()));
    EXPECT_TRUE(same_bits(decode_add(*codec, slice, {1, 2}, sum, by_rank[0]),
                          blocks_of({1, nan, 9, 12}).widened()));
  }
}

TEST_P(Topkc, SendsAtLeastOneBlock) {
  const std::unique_ptr<Codec> codec = make("1");
  for (const std::size_t count : {1u, 31u, 33u}) {
    SCOPED_TRACE(count);
    const std::vector<float> values(count, 2.0f);
    const Ranks by_rank = {TypedValues(DataType::kFloat32, values)};
    const CodecContext context(*codec, by_rank);
    const Message message = encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
    EXPECT_EQ(message.size(), 2 * std::min(count, kBlockValues));
    EXPECT_EQ(message.size(), codec->payload_capacity({&count, 1}));
    EXPECT_EQ(decode(*codec, context.whole(), {0, 1}, message).front(), 2.0f);
  }
}

TEST_P(Topkc, ReportsTheSizeOfAGranule) {
  const std::unique_ptr<Codec> codec = make("9");
  EXPECT_EQ(codec->granule(), kBlockValues);
  EXPECT_EQ(codec->max_width(), 16);
  EXPECT_EQ(codec->granule_size(16), 2 * kBlockValues);
  EXPECT_EQ(codec->granule_size(0), 0u);
}

TEST_P(Topkc, LeavesOutNoBlockLargerThanASentOne) {
  Generator random(1);
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "topkc:4");
  const Ranks by_rank = {TypedValues(DataType::kFloat32, random.mixture(100003)),
                         TypedValues(DataType::kFloat32, random.mixture(100003))};
  const CodecContext context(*codec, by_rank);
  std::uint16_t smallest_sent = 0xffff;
  std::uint16_t largest_left_out = 0;
  for (std::size_t b = 0; b < context.widths().size(); ++b) {
    const std::uint16_t norm = get_u16(context.statistics().data() + 2 * b);
    if (context.widths()[b] != 0) {
      smallest_sent = std::min(smallest_sent, norm);
    } else {
      largest_left_out = std::max(largest_left_out, norm);
    }
  }
  EXPECT_GE(smallest_sent, largest_left_out);
}

TEST_P(Topkc, StaysWithinItsBudget) {
  Generator random(2);
  const std::vector<float> values = random.mixture(100003);
  const Ranks by_rank = {TypedValues(DataType::kFloat32, values)};
  for (const char* budget : {"1", "2.5", "8", "15"}) {
    const std::unique_ptr<Codec> codec =
        make_for(GetParam(), std::string("topkc:") + budget + "+block=128");
    const CodecContext context(*codec, by_rank);
    const std::size_t bytes = codec->encoded_size(context.whole(), 1) + context.statistics().size();
    const double bits = 8.0 * static_cast<double>(bytes) / 100003;
    EXPECT_LE(bits, std::stod(budget));
    EXPECT_GE(bits, std::stod(budget) - 0.03);  // the unused rest is less than a block
  }
}

TEST(Topkc, RequiresABudgetAndBlocksOfAPowerOfTwo) {
  const auto error_of = [](const char* spelling) {
    const auto codec = make_codec(spelling);
    EXPECT_FALSE(codec.has_value()) << spelling;
    EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig) << spelling;
    return codec.status().message();
  };
  EXPECT_THAT(error_of("topkc"), HasSubstr("topkc:8"));
  EXPECT_THAT(error_of("topkc:0.5"), HasSubstr("1 to 16"));
  EXPECT_THAT(error_of("topkc:17"), HasSubstr("1 to 16"));
  EXPECT_THAT(error_of("topkc:8+block=16"), HasSubstr("block=16"));
  EXPECT_THAT(error_of("topkc:8+block=96"), HasSubstr("power of two"));
  EXPECT_THAT(error_of("topkc:8+block=64.5"), HasSubstr("power of two"));
}

}  // namespace
}  // namespace nf::test
