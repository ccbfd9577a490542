// The test vectors that docs/random.md publishes for other implementations. They were computed from
// the definition on that page, not by this library.
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
  std::uint32_t draws[6];  // of kElements
};
constexpr std::uint32_t kElements[6] = {0, 1, 16, 31, 32, 255};
constexpr std::uint64_t kMax = ~std::uint64_t{0};

constexpr Vector kVectors[] = {
    {0,
     0,
     0,
     0,
     1,
     0,
     0x92694fb4709683ac,
     0x8eed625b,
     0xc1fb342e,
     {0x625b, 0xbcb1, 0x8eed, 0xaf6a, 0x2fb4, 0xc1fb}},
    {1,
     0,
     0,
     0,
     1,
     0,
     0xccf23c557d77e9d8,
     0x459edc9f,
     0xe2dca4a5,
     {0xdc9f, 0x3222, 0x459e, 0xd709, 0x995f, 0xe2dc}},
    {0,
     1,
     0,
     0,
     1,
     0,
     0x374817af5d45a827,
     0x04b08cd2,
     0x8bbc889c,
     {0x8cd2, 0xa419, 0x04b0, 0x9815, 0x1faf, 0x8bbc}},
    {0,
     0,
     1,
     0,
     1,
     0,
     0xddd0b3c06a580eb6,
     0xcb67d263,
     0x4f23c4b8,
     {0xd263, 0x2a81, 0xcb67, 0x81e4, 0x8dad, 0x4f23}},
    {0,
     0,
     0,
     1,
     1,
     0,
     0x07c6641539df9767,
     0x1f53112c,
     0x5d8e6c07,
     {0x112c, 0x759f, 0x1f53, 0xba3d, 0xbac5, 0x5d8e}},
    {0,
     0,
     0,
     0,
     2,
     0,
     0x682df2eda5f997b5,
     0x2a319e01,
     0xbe3c18aa,
     {0x9e01, 0x3e88, 0x2a31, 0xdeaa, 0xe7d4, 0xbe3c}},
    {0,
     0,
     0,
     0,
     1,
     1,
     0x92694fb4709683ac,
     0x0047dd04,
     0xb918fa52,
     {0xdd04, 0x4724, 0x0047, 0x9cb1, 0xa2c1, 0xb918}},
    {1,
     2,
     3,
     4,
     1,
     0,
     0x43a96e6b123ca77d,
     0x91a5cb39,
     0x5e001088,
     {0xcb39, 0x5f02, 0x91a5, 0x407c, 0x9f0d, 0x5e00}},
    {1,
     2,
     3,
     4,
     1,
     5,
     0x43a96e6b123ca77d,
     0x4139f6d1,
     0x05000401,
     {63185, 22190, 16697, 63075, 25461, 1280}},
    {0x0123456789abcdef,
     1000,
     0xfedcba9876543210,
     7,
     1,
     123456789,
     0x50f30421fc2c7920,
     0x07f0183f,
     0xfb0140d5,
     {0x183f, 0xb9f5, 0x07f0, 0x8511, 0xbe39, 0xfb01}},
    {kMax,
     kMax,
     kMax,
     kSharedEncoder,
     6,
     kMax >> 8,
     0x3363782c8ec90bca,
     0x0243349c,
     0x78cca3dc,
     {0x349c, 0xc0c0, 0x0243, 0xa1ab, 0xbaef, 0x78cc}},
};

TEST(Draws, MatchThePublishedVectors) {
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

TEST(Draws, MixLikeSplitMix64) {
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(mix64(1), 0x5692161d100b05e5u);
  EXPECT_EQ(mix64(0x0123456789abcdef), 0xb2c058e4ebb5112cu);
}

TEST(Draws, UseOneWordForElementsSixteenApart) {
  const DrawKey key(DrawStream(1, 2, 3, 4, DrawPurpose::kDither), 5);
  for (std::uint32_t element = 0; element < kDrawBlock; ++element) {
    const std::uint32_t word = draw_word(key, element / 32 * 16 + element % 16);
    EXPECT_EQ(draw16(key, element), element % 32 < 16 ? word & 0xffff : word >> 16);
  }
}

TEST(Draws, DependOnEveryBitOfTheirKey) {
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
  for (std::uint64_t purpose = 2; purpose <= 8; ++purpose) add(0, 0, 0, 0, purpose);
  EXPECT_EQ(keys.size(), 1u + 3 * 64 + 32 + 7);
}

}  // namespace
}  // namespace nf
