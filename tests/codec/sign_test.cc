// Small cases of g_binary and g_ternary with expected results computed by hand.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codec/wire_bytes.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

constexpr std::size_t kCodesAt = 16;  // one scale, padded

class Sign : public testing::TestWithParam<Isa> {
 protected:
  void make(const std::string& spelling) {
    codec_ = make_for(GetParam(), spelling);
    ASSERT_NE(codec_, nullptr);
  }

  // Passes a message along all ranks; each adds its values.
  void sum_ranks(const std::vector<std::vector<float>>& ranks) {
    std::vector<std::uint32_t> order;
    for (const std::vector<float>& values : ranks) {
      order.push_back(static_cast<std::uint32_t>(by_rank_.size()));
      by_rank_.emplace_back(DataType::kFloat32, values);
    }
    const CodecContext context(*codec_, by_rank_);
    message_ = chain(*codec_, context.whole(), by_rank_, order);
    decoded_ = decode(*codec_, context.whole(),
                      {order.back(), static_cast<std::uint32_t>(order.size())}, message_);
  }

  int byte(std::size_t at) const { return std::to_integer<int>(message_[at]); }

  std::unique_ptr<Codec> codec_;
  std::vector<TypedValues> by_rank_;
  Message message_;
  std::vector<float> decoded_;
};

INSTANTIATE_TEST_SUITE_P(Codec, Sign, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(Sign, BinarySendsOneBitPerElementAndTheMeanMagnitude) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary"));
  sum_ranks({{1, -2, 3, -4, 1, 1, 1, 1, -1, 2}});
  ASSERT_EQ(message_.size(), kCodesAt + 4);
  EXPECT_EQ(get_float(message_.data()), 1.7f);
  for (std::size_t i = 4; i < kCodesAt; ++i) EXPECT_EQ(byte(i), 0);
  EXPECT_EQ(byte(kCodesAt), 0b11110101);
  EXPECT_EQ(byte(kCodesAt + 1), 0b10);
  EXPECT_EQ(byte(kCodesAt + 2), 0);  // padding
  EXPECT_EQ(decoded_, (std::vector{1.7f, -1.7f, 1.7f, -1.7f, 1.7f, 1.7f, 1.7f, 1.7f, -1.7f, 1.7f}));
}

TEST_P(Sign, BinaryAddsEqualMagnitudesExactly) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary"));
  sum_ranks({{1, 1, -1, -1}, {1, -1, 1, -1}, {1, 1, 1, -1}});
  EXPECT_EQ(get_float(message_.data()), 3.0f);
  ASSERT_EQ(message_.size(), kCodesAt + 8);  // counts of 0 to 3 in two bits
  EXPECT_EQ(decoded_, (std::vector{3.0f, 1.0f, 1.0f, -3.0f}));
}

TEST_P(Sign, BinaryMajorityDecodesAsIfAllRanksHadTheMajoritySign) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary+majority"));
  sum_ranks({{1, 1, -1, -1}, {1, -1, 1, -1}, {1, 1, 1, -1}});
  EXPECT_EQ(get_float(message_.data()), 3.0f);
  ASSERT_EQ(message_.size(), kCodesAt + 4);  // one bit per element
  EXPECT_EQ(byte(kCodesAt), 0b0111);
  EXPECT_EQ(decoded_, (std::vector{3.0f, 3.0f, 3.0f, -3.0f}));
}

TEST_P(Sign, BinaryMajorityOfOneRankHasItsSigns) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary+majority"));
  sum_ranks({{1, -2, 3, -4, 1, 1, 1, 1, -1, 2}});
  ASSERT_EQ(message_.size(), kCodesAt + 4);
  EXPECT_EQ(byte(kCodesAt), 0b11110101);
  EXPECT_EQ(byte(kCodesAt + 1), 0b10);
}

// The vote of all ranks, ties included, equals the vote computed from the counts, which are sent as
// long as the sum is not complete.
TEST_P(Sign, BinaryMajorityDecodesLikeItsCounts) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary+majority"));
  for (const std::uint32_t ranks : {2u, 3u, 4u, 9u}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Generator random(ranks);
    std::vector<TypedValues> by_rank;
    std::vector<std::uint32_t> order;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      by_rank.emplace_back(DataType::kFloat32, random.normal(5120 + 777));
      order.push_back(rank);
    }
    const CodecContext context(*codec_, by_rank);
    const Slice all = context.whole();
    Slice some = all;
    some.ranks = ranks + 1;
    const Origin origin{.encoder = ranks - 1, .contributions = ranks};
    const Message votes = chain(*codec_, all, by_rank, order);
    const Message counts = chain(*codec_, some, by_rank, order);
    EXPECT_EQ(votes.size(), codec_->encoded_size(all, 1));
    EXPECT_GT(counts.size(), votes.size());
    EXPECT_TRUE(
        same_bits(decode(*codec_, all, origin, votes), decode(*codec_, some, origin, counts)));
  }
}

TEST_P(Sign, BinaryMergesCountsAndScales) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary"));
  sum_ranks({{1, -2, 3, -4, 1, 1, 1, 1, -1, 2}});
  const CodecContext both(*codec_, std::vector<TypedValues>(2, by_rank_[0]));
  const Message merged = merge(*codec_, both.whole(), {0, 1}, message_, {1, 1}, message_, 0);
  EXPECT_EQ(get_float(merged.data()), 3.4f);
  ASSERT_EQ(merged.size(), kCodesAt + 8);
  const int codes[] = {0x02, 0x08, 0x02, 0x00, 0x02, 0x02, 0x02, 0x02};
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::to_integer<int>(merged[kCodesAt + i]), codes[i]) << i;
  }
}

TEST_P(Sign, BinaryPropagatesNonFiniteScalesInMerges) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary"));
  const float max = std::numeric_limits<float>::max();
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, std::vector{NAN}),
                                            TypedValues(DataType::kFloat32, std::vector{max}),
                                            TypedValues(DataType::kFloat32, std::vector{1.0f})};
  const CodecContext context(*codec_, by_rank);
  const Slice slice = context.whole();
  std::vector<Message> own;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    own.push_back(encode(*codec_, slice, {rank, 1}, by_rank[rank].view()));
  }
  for (const auto& [a, b] : {std::pair{0, 2}, std::pair{2, 0}, std::pair{0, 0}, std::pair{1, 1}}) {
    const Message merged = merge(*codec_, slice, {0, 1}, own[a], {1, 1}, own[b], 0);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(get_float(merged.data())), 0x7fc00000u) << a << b;
  }
}

TEST_P(Sign, BinaryMajorityDrawsTheSignOfTies) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary+majority"));
  sum_ranks({std::vector<float>(5120, 1.0f), std::vector<float>(5120, -1.0f)});
  double sum = 0;
  for (const float value : decoded_) {
    EXPECT_EQ(std::abs(value), 2.0f);
    sum += value / 2;
  }
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(5120));
}

TEST_P(Sign, BinaryDrawsTheSignOfZeros) {
  ASSERT_NO_FATAL_FAILURE(make("g_binary"));
  std::vector<float> values(5120, 0.0f);
  values[0] = 5120;  // mean magnitude 1
  sum_ranks({values});
  double sum = 0;
  for (const float value : decoded_) {
    EXPECT_EQ(std::abs(value), 1.0f);
    sum += value;
  }
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(5120));
}

TEST_P(Sign, TernaryOpensTheGatesOfLargeValues) {
  ASSERT_NO_FATAL_FAILURE(make("g_ternary"));
  // The mean magnitude is 2, so gates open above 1.4. The mean of 4, 3 and 2 is 3.
  sum_ranks({{4, -3, 2, 1, -1, 1}});
  EXPECT_EQ(get_float(message_.data()), 3.0f);
  EXPECT_EQ(decoded_, (std::vector{3.0f, -3.0f, 3.0f, 0.0f, 0.0f, 0.0f}));
  // Byte j contains elements j, j + 32, ...: one value and four closed gates, base 3.
  ASSERT_EQ(message_.size(), kCodesAt + 32);
  EXPECT_EQ(byte(kCodesAt), 2 + 3 + 9 + 27 + 81);
  EXPECT_EQ(byte(kCodesAt + 1), 0 + 3 + 9 + 27 + 81);
  EXPECT_EQ(byte(kCodesAt + 3), 1 + 3 + 9 + 27 + 81);
}

TEST_P(Sign, TernaryMergesDigitsIntoThreeBits) {
  ASSERT_NO_FATAL_FAILURE(make("g_ternary"));
  sum_ranks({{4, -3, 2, 1, -1, 1}});
  const CodecContext both(*codec_, std::vector<TypedValues>(2, by_rank_[0]));
  const Message merged = merge(*codec_, both.whole(), {0, 1}, message_, {1, 1}, message_, 0);
  EXPECT_EQ(get_float(merged.data()), 6.0f);
  ASSERT_EQ(merged.size(), kCodesAt + 12);  // codes of 0 to 4: 4, 0, 4, 2, 2, 2
  const int low[] = {0, 0, 0, 2, 2, 2, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::to_integer<int>(merged[kCodesAt + i]), low[i]);
  EXPECT_EQ(std::to_integer<int>(merged[kCodesAt + 8]), 0b000101);
}

TEST_P(Sign, TernaryAddsEqualMagnitudesExactly) {
  ASSERT_NO_FATAL_FAILURE(make("g_ternary"));
  sum_ranks({{1, 1, -1, 0}, {1, 0, -1, 1}, {1, -1, -1, 1}});
  EXPECT_EQ(decoded_, (std::vector{3.0f, 0.0f, -3.0f, 2.0f}));
}

}  // namespace
}  // namespace nf::test
