#include "cxl/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/generator.h"

namespace nf::cxl {
namespace {

bool bit(const Line& line, std::size_t lane) {
  return (line.words[lane / 64] >> (lane % 64) & 1) != 0;
}

unsigned counter(std::span<const Line> planes, std::size_t lane) {
  unsigned value = 0;
  for (std::size_t k = 0; k < planes.size(); ++k) value |= unsigned{bit(planes[k], lane)} << k;
  return value;
}

TEST(Counters, AddsADigitToEveryLane) {
  nf::test::Generator generator(1);
  std::array<Line, 8> planes{};
  std::array<unsigned, 512> expected{};
  for (int worker = 0; worker < 127; ++worker) {
    Digits digits;
    for (std::size_t i = 0; i < kLineWords; ++i) {
      digits.ones.words[i] = generator.bits();
      digits.twos.words[i] = generator.bits() & ~digits.ones.words[i];
    }
    EXPECT_FALSE(would_wrap(digits, planes));
    EXPECT_EQ(add(digits, planes), Line{});
    for (std::size_t lane = 0; lane < 512; ++lane) {
      expected[lane] += bit(digits.ones, lane) ? 1 : bit(digits.twos, lane) ? 2 : 0;
    }
  }
  for (std::size_t lane = 0; lane < 512; ++lane) EXPECT_EQ(counter(planes, lane), expected[lane]);
}

TEST(Counters, ReturnsTheLanesThatWrapped) {
  std::array<Line, 2> planes{};
  Digits digits;
  digits.ones.words[0] = 0b01;
  digits.twos.words[0] = 0b10;
  EXPECT_EQ(add(digits, planes), Line{});  // lane 0 is 1, lane 1 is 2
  Line wrapped;
  wrapped.words[0] = 0b10;
  EXPECT_TRUE(would_wrap(digits, planes));
  EXPECT_EQ(add(digits, planes), wrapped);  // 2, and 4 in two bits
}

TEST(Counters, PredictWhetherALaneWouldWrap) {
  nf::test::Generator generator(12);
  int wrapping = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = 1 + generator.below(5);
    std::array<Line, 5> planes{};
    Digits digits;
    const std::size_t word = generator.below(kLineWords);  // few lanes, so that both cases occur
    for (Line& plane : planes) plane.words[word] = generator.bits() & generator.bits();
    digits.ones.words[word] = generator.bits() & generator.bits();
    digits.twos.words[word] = generator.bits() & generator.bits() & ~digits.ones.words[word];
    const std::span<Line> used(planes.data(), count);
    const bool expected = would_wrap(digits, used);
    EXPECT_EQ(add(digits, used) != Line{}, expected);
    wrapping += expected ? 1 : 0;
  }
  EXPECT_GT(wrapping, 100);
  EXPECT_LT(wrapping, 1900);
}

}  // namespace
}  // namespace nf::cxl
