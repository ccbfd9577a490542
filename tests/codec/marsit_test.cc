// Tests of marsit: a merge keeps equal bits and draws the others, without bias for any order of
// merges.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codec/wire_bytes.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

using Ranks = std::vector<TypedValues>;

constexpr std::size_t kBitsAt = 16;  // one scale, padded

class Marsit : public testing::TestWithParam<Isa> {
 protected:
  const std::unique_ptr<Codec> codec_ = make_for(GetParam(), "marsit");
};

INSTANTIATE_TEST_SUITE_P(Codec, Marsit, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(Marsit, EncodesAndDecodesOneRankLikeGBinary) {
  Generator random(1);
  const std::unique_ptr<Codec> g_binary = make_for(GetParam(), "g_binary");
  const Ranks by_rank = {TypedValues(DataType::kFloat32, random.hostile(12000))};
  const Slice slice = CodecContext(*codec_, by_rank).whole();
  const Message message = encode(*codec_, slice, {0, 1}, by_rank[0].view());
  EXPECT_TRUE(same_bytes(message, encode(*g_binary, slice, {0, 1}, by_rank[0].view())));
  EXPECT_TRUE(same_bits(decode(*codec_, slice, {0, 1}, message),
                        decode(*g_binary, slice, {0, 1}, message)));
}

TEST_P(Marsit, KeepsEqualBitsAndAddsScales) {
  const std::vector<float> first = {1, -1, 1, -1, 1, 1, 1, 1, -1, 1};
  std::vector<float> second;
  for (const float value : first) second.push_back(2 * value);
  const Ranks by_rank = {TypedValues(DataType::kFloat32, first),
                         TypedValues(DataType::kFloat32, second)};
  const CodecContext context(*codec_, by_rank);
  const std::uint32_t order[] = {0, 1};
  const Message sum = chain(*codec_, context.whole(), by_rank, order);
  ASSERT_EQ(sum.size(), kBitsAt + 4);
  EXPECT_EQ(get_float(sum.data()), 3.0f);
  EXPECT_EQ(std::to_integer<int>(sum[kBitsAt]), 0b11110101);
  EXPECT_EQ(std::to_integer<int>(sum[kBitsAt + 1]), 0b10);
  std::vector<float> expected;
  for (const float value : first) expected.push_back(3 * value);
  EXPECT_EQ(decode(*codec_, context.whole(), {1, 2}, sum), expected);
}

TEST_P(Marsit, WritesTheBytesOfTheExampleInTheDocs) {
  const Ranks by_rank = {TypedValues(DataType::kFloat32, std::vector<float>(32, 1.0f)),
                         TypedValues(DataType::kFloat32, std::vector<float>(32, -1.0f))};
  const Slice slice{.seed = 1, .step = 2, .parameter = 3, .count = 32, .ranks = 3};
  const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
  const Message second = encode(*codec_, slice, {1, 1}, by_rank[1].view());
  const Message sum = merge(*codec_, slice, {0, 2}, first, {1, 1}, second, 4);
  ASSERT_EQ(sum.size(), kBitsAt + 4);
  EXPECT_EQ(get_float(sum.data()), 2.0f);
  const std::array<int, 4> bits = {0x7b, 0x9a, 0x70, 0xef};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(sum[kBitsAt + i]), bits[i]) << "byte " << i;
  }
}

TEST_P(Marsit, TakesEveryBitFromOneOfTwoMessages) {
  Generator random(2);
  const Ranks by_rank = {TypedValues(DataType::kFloat32, random.normal(20480)),
                         TypedValues(DataType::kFloat32, random.normal(20480))};
  const CodecContext context(*codec_, by_rank);
  const Slice slice = context.whole();
  const Message first = encode(*codec_, slice, {0, 1}, by_rank[0].view());
  const Message second = encode(*codec_, slice, {1, 1}, by_rank[1].view());
  const Message sum = merge(*codec_, slice, {0, 1}, first, {1, 1}, second, 1);
  int differing = 0;
  int from_first = 0;
  for (std::size_t at = kBitsAt; at < sum.size(); ++at) {
    const auto a = std::to_integer<std::uint32_t>(first[at]);
    const auto b = std::to_integer<std::uint32_t>(second[at]);
    const auto merged = std::to_integer<std::uint32_t>(sum[at]);
    EXPECT_EQ((merged ^ a) & ~(a ^ b), 0u);
    differing += std::popcount(a ^ b);
    from_first += std::popcount((a ^ b) & ~(merged ^ a));
  }
  EXPECT_GT(differing, 10000);
  EXPECT_LT(std::abs(from_first - differing / 2.0), 4 * std::sqrt(differing) / 2);
}

// One merge: rank `encoder` merges message `from` into message `into`.
struct MergeStep {
  std::uint32_t into = 0;
  std::uint32_t from = 0;
  std::uint32_t encoder = 0;
};

struct Shape {
  const char* name = "";
  std::array<MergeStep, 4> steps;
};

constexpr Shape kShapes[] = {
    {"chain", {{{0, 1, 1}, {0, 2, 2}, {0, 3, 3}, {0, 4, 4}}}},
    {"tree", {{{1, 0, 1}, {3, 2, 3}, {3, 1, 3}, {3, 4, 3}}}},
    {"uneven tree", {{{0, 1, 0}, {2, 3, 2}, {2, 4, 2}, {0, 2, 0}}}},
    {"star", {{{4, 0, 4}, {4, 1, 4}, {4, 2, 4}, {4, 3, 4}}}},
};

// Element e is positive on the ranks whose bit in e % 32 is set: all patterns of signs are equally
// frequent.
std::vector<TypedValues> every_pattern(std::size_t count) {
  std::vector<TypedValues> by_rank;
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    std::vector<float> values(count);
    for (std::size_t e = 0; e < count; ++e) values[e] = (e >> rank & 1) != 0 ? 1.0f : -1.0f;
    by_rank.emplace_back(DataType::kFloat32, values);
  }
  return by_rank;
}

TEST_P(Marsit, AveragesTheSignsOfAllRanksForAnyOrderOfMerges) {
  constexpr std::size_t kCount = 4 * 5120;
  constexpr int kSteps = 25;
  const std::vector<TypedValues> by_rank = every_pattern(kCount);
  CodecContext context(*codec_, by_rank);
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    std::array<double, 32> sums{};
    for (int step = 0; step < kSteps; ++step) {
      context.step = static_cast<std::uint64_t>(step);
      const Slice slice = context.whole();
      std::vector<Origin> origins;
      std::vector<Message> messages;
      for (std::uint32_t rank = 0; rank < 5; ++rank) {
        origins.push_back({rank, 1});
        messages.push_back(encode(*codec_, slice, origins[rank], by_rank[rank].view()));
      }
      for (const auto& [into, from, encoder] : shape.steps) {
        messages[into] = merge(*codec_, slice, origins[into], messages[into], origins[from],
                               messages[from], encoder);
        origins[into] = {encoder, origins[into].contributions + origins[from].contributions};
      }
      const std::uint32_t last = shape.steps.back().into;
      ASSERT_EQ(origins[last].contributions, 5u);
      const std::vector<float> decoded = decode(*codec_, slice, origins[last], messages[last]);
      for (std::size_t e = 0; e < kCount; ++e) {
        ASSERT_EQ(std::abs(decoded[e]), 5.0f);
        sums[e % 32] += decoded[e] / 5;
      }
    }
    // Four standard errors: one of 128 means exceeds it by chance in 1 of 120 runs, and the steps
    // are fixed.
    constexpr double kDraws = kCount / 32.0 * kSteps;
    for (unsigned pattern = 0; pattern < 32; ++pattern) {
      const double mean = (2.0 * std::popcount(pattern) - 5) / 5;
      const double error = std::sqrt((1 - mean * mean) / kDraws);
      EXPECT_LE(std::abs(sums[pattern] / kDraws - mean), 4 * error) << "pattern " << pattern;
    }
  }
}

TEST_P(Marsit, NonFiniteValuesPropagateThroughMergesWithinTheirBlock) {
  std::vector<float> values(5120 + 40, 1.0f);
  const TypedValues finite(DataType::kFloat32, values);
  values.back() = std::numeric_limits<float>::infinity();
  const Ranks by_rank = {TypedValues(DataType::kFloat32, values), finite, finite};
  const CodecContext context(*codec_, by_rank);
  const std::uint32_t order[] = {0, 1, 2};
  const Message sum = chain(*codec_, context.whole(), by_rank, order);
  const std::vector<float> decoded = decode(*codec_, context.whole(), {2, 3}, sum);
  EXPECT_EQ(decoded.front(), 3.0f);
  EXPECT_EQ(decoded[5119], 3.0f);
  EXPECT_TRUE(std::isnan(decoded[5120]));
  EXPECT_TRUE(std::isnan(decoded.back()));
}

TEST(Marsit, KeepsResidualsWithErrorFeedbackOnly) {
  EXPECT_FALSE((*make_codec("marsit"))->keeps_residual());
  EXPECT_TRUE((*make_codec("marsit+ef"))->keeps_residual());
}

}  // namespace
}  // namespace nf::test
