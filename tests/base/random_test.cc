// The definition of the draws, pinned: docs/random.md publishes these vectors, so that anybody can
// check an implementation of their own. They were computed from that page, not by this library.
#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace nf {
namespace {

struct Vector {
  std::uint64_t seed, step, parameter;
  std::uint32_t encoder;
  std::uint64_t purpose, block;
  std::uint64_t stream;
  std::uint32_t word0, word127;
  std::uint32_t draws[6];  // of the elements below
};
constexpr std::uint32_t kElements[6] = {0, 1, 16, 31, 32, 255};
constexpr std::uint64_t kMost = ~std::uint64_t{0};

constexpr Vector kVectors[] = {
    {0,
     0,
     0,
     0,
     1,
     0,
     0x92694fb4709683ac,
     0x09ebaab9,
     0xb06c2ce7,
     {0xaab9, 0x8eab, 0x09eb, 0x96be, 0xe44e, 0xb06c}},
    {1,
     0,
     0,
     0,
     1,
     0,
     0xccf23c557d77e9d8,
     0x4989bcf1,
     0x08fd74fb,
     {0xbcf1, 0x972b, 0x4989, 0x38fa, 0x2471, 0x08fd}},
    {0,
     1,
     0,
     0,
     1,
     0,
     0x374817af5d45a827,
     0x20257356,
     0x2501a4b6,
     {0x7356, 0xefb6, 0x2025, 0x9619, 0x5f52, 0x2501}},
    {0,
     0,
     1,
     0,
     1,
     0,
     0xddd0b3c06a580eb6,
     0xdfedd735,
     0xcf7f47ed,
     {0xd735, 0x0bb2, 0xdfed, 0xb37d, 0x1648, 0xcf7f}},
    {0,
     0,
     0,
     1,
     1,
     0,
     0x07c6641539df9767,
     0x801592a5,
     0x2847991f,
     {0x92a5, 0x71ca, 0x8015, 0x38f2, 0x26d2, 0x2847}},
    {0,
     0,
     0,
     0,
     2,
     0,
     0x682df2eda5f997b5,
     0x72ed14d5,
     0xefac966b,
     {0x14d5, 0x06d9, 0x72ed, 0xeb06, 0x19fc, 0xefac}},
    {0,
     0,
     0,
     0,
     1,
     1,
     0x92694fb4709683ac,
     0x3fda8807,
     0x97ccf696,
     {0x8807, 0x1e29, 0x3fda, 0x4bf5, 0x7a06, 0x97cc}},
    {1,
     2,
     3,
     4,
     1,
     0,
     0x43a96e6b123ca77d,
     0x36dc156d,
     0x98acf2c7,
     {5485, 17881, 14044, 19491, 2996, 39084}},
    {1,
     2,
     3,
     4,
     1,
     5,
     0x43a96e6b123ca77d,
     0x017097c7,
     0xab50393c,
     {38855, 32021, 368, 19781, 10325, 43856}},
    {0x0123456789abcdef,
     1000,
     0xfedcba9876543210,
     7,
     1,
     123456789,
     0x50f30421fc2c7920,
     0x78889b83,
     0x23161585,
     {0x9b83, 0x3111, 0x7888, 0xa1bf, 0x211e, 0x2316}},
    {kMost,
     kMost,
     kMost,
     kSharedEncoder,
     6,
     kMost >> 8,
     0x3363782c8ec90bca,
     0x8cc0046d,
     0xd8abb634,
     {0x046d, 0x6ed9, 0x8cc0, 0xd680, 0x0c47, 0xd8ab}},
};

TEST(Draws, AreThePublishedOnes) {
  for (const Vector& v : kVectors) {
    const DrawStream stream(v.seed, v.step, v.parameter, v.encoder,
                            static_cast<DrawPurpose>(v.purpose));
    EXPECT_EQ(stream.key, v.stream);
    const DrawKey key(stream, v.block);
    EXPECT_EQ(draw_word(key, 0), v.word0);
    EXPECT_EQ(draw_word(key, 127), v.word127);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(draw16(key, kElements[i]), v.draws[i]);
  }
}

TEST(Draws, MixAsSplitMix64Does) {
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(mix64(1), 0x5692161d100b05e5u);
  EXPECT_EQ(mix64(0x0123456789abcdef), 0xb2c058e4ebb5112cu);
}

TEST(Draws, ShareAWordBetweenElementsSixteenApart) {
  const DrawKey key(DrawStream(1, 2, 3, 4, DrawPurpose::kDither), 5);
  for (std::uint32_t element = 0; element < kDrawBlock; ++element) {
    const std::uint32_t word = draw_word(key, element / 32 * 16 + element % 16);
    EXPECT_EQ(draw16(key, element), element % 32 < 16 ? word & 0xffff : word >> 16);
  }
}

TEST(Draws, DifferInEveryBitOfWhatIdentifiesThem) {
  std::set<std::uint64_t> keys;
  const auto add = [&](std::uint64_t seed, std::uint64_t step, std::uint64_t parameter,
                       std::uint32_t encoder, std::uint64_t purpose) {
    keys.insert(DrawStream(seed, step, parameter, encoder, static_cast<DrawPurpose>(purpose)).key);
  };
  add(0, 0, 0, 0, 1);
  for (unsigned bit = 0; bit < 64; ++bit) {
    add(std::uint64_t{1} << bit, 0, 0, 0, 1);
    add(0, std::uint64_t{1} << bit, 0, 0, 1);
    add(0, 0, std::uint64_t{1} << bit, 0, 1);
  }
  for (unsigned bit = 0; bit < 32; ++bit) add(0, 0, 0, 1u << bit, 1);
  for (std::uint64_t purpose = 2; purpose <= 6; ++purpose) add(0, 0, 0, 0, purpose);
  EXPECT_EQ(keys.size(), 1u + 3 * 64 + 32 + 5);
}

}  // namespace
}  // namespace nf
