// Tests of thc: the bytes of docs/codecs/thc.md, and sums that saturate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "codec/codes.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

class ThcTest : public testing::TestWithParam<Isa> {};

INSTANTIATE_TEST_SUITE_P(Codec, ThcTest, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

Message bytes_of(std::initializer_list<int> numbers) {
  Message bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

std::vector<int> codes_of(const Message& message, unsigned width) {
  std::uint32_t pack[kPack];
  unpack_codes(message.data(), width, pack);
  return {pack, pack + kPack};
}

// The 32 values of docs/codecs/thc.md on each of `ranks` ranks.
struct Example {
  Example(const Codec& codec, std::size_t ranks)
      : by_rank(ranks, TypedValues(DataType::kFloat32, values())), context(codec, by_rank) {
    context.seed = 1;
    context.step = 2;
    context.parameter = 3;
  }

  static std::vector<float> values() {
    std::vector<float> x(kPack);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 16) / 8;
    return x;
  }

  std::vector<TypedValues> by_rank;
  CodecContext context;
};

TEST_P(ThcTest, WritesTheBytesOfTheExampleInTheDocs) {
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "thc");
  const Example example(*codec, 2);
  const Slice slice = example.context.whole();
  EXPECT_TRUE(same_bytes(example.context.statistics(), bytes_of({0xd2, 0x40})));
  const ConstValues values = example.by_rank[0].view();
  const Message one = encode(*codec, slice, {4, 1}, values);
  EXPECT_TRUE(same_bytes(one, bytes_of({0x8f, 0xa9, 0x47, 0x8a, 0x93, 0xaa, 0x27, 0xa7,  //
                                        0xfa, 0x99, 0x94, 0x9b, 0x4c, 0x88, 0x95, 0xb9})));
  const Message two = bytes_of({0xfd, 0x43, 0x8e, 0xf4, 0x16, 0x44, 0x4e, 0x4e, 0xd3, 0x32,
                                0x28, 0x16, 0x88, 0x00, 0x3a, 0x62, 0x2b, 0xbb, 0xb2, 0xef});
  EXPECT_TRUE(same_bytes(decode_add_encode(*codec, slice, {4, 1}, one, values, 5), two));
  const Message other = encode(*codec, slice, {5, 1}, values);
  EXPECT_TRUE(same_bytes(merge(*codec, slice, {5, 1}, other, {4, 1}, one, 5), two));
}

// With four bits there are 15 levels for an even number of contributions and 16 for an odd number.
TEST_P(ThcTest, SaturatesAboutTheCentreOfTheSum) {
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "thc+saturate=4");
  const Example example(*codec, 3);
  const Slice slice = example.context.whole();
  const Message one = encode(*codec, slice, {4, 1}, example.by_rank[0].view());
  const Message two = merge(*codec, slice, {4, 1}, one, {4, 1}, one, 4);
  const Message three = merge(*codec, slice, {4, 2}, two, {4, 1}, one, 4);
  ASSERT_EQ(two.size(), one.size());
  ASSERT_EQ(three.size(), one.size());
  const std::vector<int> codes = codes_of(one, 4);
  std::vector<int> sums = codes;
  for (int& code : sums) code = std::clamp(code + code - 8, 0, 14);
  EXPECT_EQ(codes_of(two, 4), sums);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = std::clamp(sums[i] + codes[i] - 7, 0, 15);
  EXPECT_EQ(codes_of(three, 4), sums);
}

TEST_P(ThcTest, DecodesSaturatedCodesAboutTheirCentre) {
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "thc+saturate=5");
  for (const std::uint32_t contributions : {3u, 4u}) {
    const Example example(*codec, contributions);
    const int top = contributions == 3 ? 31 : 30;
    std::uint32_t pack[kPack];
    std::fill(pack, pack + kPack, static_cast<std::uint32_t>(top));
    Message message(codec->encoded_size(example.context.whole(), contributions));
    pack_codes(pack, 5, message.data());
    const std::vector<float> decoded =
        decode(*codec, example.context.whole(), {0, contributions}, message);
    // Equal levels are the transform of a single non-zero value. The norm is 6.5625.
    const float step = 2.4176f / 7.5f * 6.5625f;
    EXPECT_NEAR(std::abs(decoded[0]), 0.5f * static_cast<float>(top) * step, 1e-4f);
    for (std::size_t i = 1; i < kPack; ++i) EXPECT_EQ(decoded[i], 0.0f);
  }
}

TEST_P(ThcTest, RejectsCodesAboveTheSaturatedMaximum) {
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "thc+saturate=4");
  const Example example(*codec, 3);
  std::vector<float> values(kPack);
  const Message all_ones(16, std::byte{0xff});  // 15 in every element
  const auto decoded = [&](std::uint32_t contributions) {
    return codec->decode(example.context.whole(), {0, contributions}, all_ones, Values(values));
  };
  EXPECT_TRUE(decoded(1).ok());
  EXPECT_EQ(decoded(2).code(), ErrorCode::kCorruptFrame);
  EXPECT_TRUE(decoded(3).ok());
}

TEST_P(ThcTest, IsExactUntilTheSumExceedsTheWidth) {
  const std::unique_ptr<Codec> exact = make_for(GetParam(), "thc");
  const std::unique_ptr<Codec> saturating = make_for(GetParam(), "thc+saturate=6");
  Generator random(1);
  std::vector<TypedValues> by_rank;
  for (int rank = 0; rank < 5; ++rank) {
    by_rank.emplace_back(DataType::kFloat32, random.normal(3000));
  }
  const CodecContext context(*exact, by_rank);
  const Slice slice = context.whole();
  const std::uint32_t order[] = {0, 1, 2, 3, 4};
  const auto sum_by = [&](const Codec& codec, std::size_t ranks) {
    return chain(codec, slice, by_rank, std::span(order).first(ranks));
  };
  for (const std::size_t ranks : {1u, 2u, 3u, 4u}) {
    EXPECT_TRUE(same_bytes(sum_by(*saturating, ranks), sum_by(*exact, ranks)));
  }
  EXPECT_EQ(saturating->encoded_size(slice, 5), exact->encoded_size(slice, 4));
  EXPECT_EQ(saturating->encoded_size(slice, 1000), exact->encoded_size(slice, 4));
  EXPECT_EQ(sum_by(*saturating, 5).size(), exact->encoded_size(slice, 4));
}

// Equal ranks saturate nearly all codes. Codes are clamped and do not wrap, so that the sum keeps
// its direction.
TEST_P(ThcTest, KeepsTheDirectionOfSaturatedSums) {
  const std::unique_ptr<Codec> codec = make_for(GetParam(), "thc+saturate=4");
  Generator random(2);
  const std::vector<float> values = random.normal(4096);
  std::vector<TypedValues> by_rank(64, TypedValues(DataType::kFloat32, values));
  const CodecContext context(*codec, by_rank);
  std::vector<std::uint32_t> order;
  for (std::uint32_t rank = 0; rank < 64; ++rank) order.push_back(rank);
  const Message sum = chain(*codec, context.whole(), by_rank, order);
  const std::vector<float> decoded = decode(*codec, context.whole(), {63, 64}, sum);
  double along = 0;
  double energy = 0;
  double decoded_energy = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    along += double{values[i]} * decoded[i];
    energy += double{values[i]} * values[i];
    decoded_energy += double{decoded[i]} * decoded[i];
  }
  EXPECT_GT(along / std::sqrt(energy * decoded_energy), 0.75);
}

TEST(Thc, RejectsAFractionalWidth) {
  const auto codec = make_codec("thc+saturate=4.5");
  ASSERT_FALSE(codec.has_value());
  EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig);
}

}  // namespace
}  // namespace nf::test
