// Statistical tests of the draws: uniform, and independent in every part of their key. Under that
// hypothesis every statistic is close to normal. A test fails beyond 5 standard deviations, which
// happens by chance once in 1.7 million. Seeds are fixed, so failures are reproducible.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"

namespace nf {
namespace {

constexpr double kMaxDeviations = 5;

double chi_square(std::span<const std::uint32_t> counts) {
  double sum = 0;
  for (const std::uint32_t count : counts) sum += count;
  const double expected = sum / static_cast<double>(counts.size());
  double squares = 0;
  for (const std::uint32_t count : counts) squares += (count - expected) * (count - expected);
  return squares / expected;
}

// The deviation of the counts from equal ones, in standard deviations.
double deviations(std::span<const std::uint32_t> counts) {
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi_square(counts) - freedom) / std::sqrt(2 * freedom);
}

DrawKey key_of(std::uint64_t block, std::uint64_t step = 3) {
  return {DrawStream(1, step, 0xabcdef, 0, DrawPurpose::kDither), block};
}

template <typename Work>
void for_each_draw(std::uint64_t blocks, Work work) {
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const DrawKey key = key_of(block);
    for (std::uint32_t e = 0; e < kDrawBlock; ++e) work(block, e, draw16(key, e));
  }
}

TEST(DrawQuality, EveryValueIsEquallyLikely) {
  std::vector<std::uint32_t> counts(0x10000);
  for_each_draw(1 << 14, [&](auto, auto, std::uint32_t draw) { ++counts[draw]; });
  EXPECT_LT(std::abs(deviations(counts)), kMaxDeviations);
}

TEST(DrawQuality, EveryElementOfABlockIsUniform) {
  std::vector<std::array<std::uint32_t, 64>> counts(kDrawBlock);
  for_each_draw(1 << 13,
                [&](auto, std::uint32_t e, std::uint32_t draw) { ++counts[e][draw >> 10]; });
  for (std::size_t e = 0; e < kDrawBlock; ++e) {
    EXPECT_LT(std::abs(deviations(counts[e])), kMaxDeviations) << "element " << e;
  }
}

TEST(DrawQuality, EveryBitIsBalanced) {
  constexpr std::uint64_t kBlocks = 1 << 13;
  std::array<double, 32> ones{};  // of low and high halves, separately
  for_each_draw(kBlocks, [&](auto, std::uint32_t e, std::uint32_t draw) {
    for (std::size_t bit = 0; bit < 16; ++bit) {
      ones[bit + (e % 32 < 16 ? 0 : 16)] += draw >> bit & 1u;
    }
  });
  constexpr double kDraws = kBlocks * kDrawBlock / 2;
  for (std::size_t bit = 0; bit < ones.size(); ++bit) {
    EXPECT_LT(std::abs(ones[bit] - kDraws / 2) / std::sqrt(kDraws / 4), kMaxDeviations)
        << "bit " << bit;
  }
}

// Any correlation inside a block, at any distance, changes the variance of the block sums.
TEST(DrawQuality, BlockSumsHaveTheVarianceOfIndependentDraws) {
  constexpr int kBlocks = 1 << 14;
  std::vector<double> sums(kBlocks);
  for_each_draw(kBlocks, [&](std::uint64_t block, auto, std::uint32_t draw) {
    sums[block] += (draw + 0.5) / 65536 - 0.5;
  });
  const double variance = kDrawBlock / 12.0;
  double mean = 0;
  double squares = 0;
  for (const double sum : sums) {
    mean += sum / std::sqrt(variance);
    squares += sum * sum / variance;
  }
  EXPECT_LT(std::abs(mean) / std::sqrt(kBlocks), kMaxDeviations);
  EXPECT_LT(std::abs(squares - kBlocks) / std::sqrt(2.0 * kBlocks), kMaxDeviations);
}

TEST(DrawQuality, BitsOfEightNeighboursFormAllPatterns) {
  for (const unsigned bit : {0u, 1u, 7u, 8u, 14u, 15u}) {
    std::vector<std::uint32_t> counts(256);
    unsigned pattern = 0;
    for_each_draw(1 << 13, [&](auto, std::uint32_t e, std::uint32_t draw) {
      pattern = (pattern << 1 | (draw >> bit & 1u)) & 0xff;
      if (e % 8 == 7) ++counts[pattern];
    });
    EXPECT_LT(std::abs(deviations(counts)), kMaxDeviations) << "bit " << bit;
  }
}

// Not a test of chance: the mean square contingency between four bits of a word and the same bits
// of another word of its block. The bound of 0.002 implies a correlation below 0.045 even if the
// dependence is entirely linear. The remaining dependence is in the lower bits of a draw.
TEST(DrawQuality, WordsOfABlockAreNearlyIndependent) {
  constexpr std::size_t kBlocks = 1 << 12;
  constexpr std::size_t kWords = kDrawBlock / 2;
  constexpr double kMaxContingency = 0.002;
  std::vector<std::array<std::uint32_t, kWords>> blocks(kBlocks);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    for (std::uint32_t w = 0; w < kWords; ++w) blocks[b][w] = draw_word(key_of(b), w);
  }
  for (unsigned place = 0; place < 32; place += 4) {
    for (std::size_t distance = 1; distance < kWords - 8; ++distance) {
      std::array<std::uint32_t, 256> counts{};
      for (const auto& words : blocks) {
        for (std::size_t w = 0; w + distance < kWords; ++w) {
          ++counts[(words[w] >> place & 15) << 4 | (words[w + distance] >> place & 15)];
        }
      }
      const double pairs = static_cast<double>(kBlocks * (kWords - distance));
      const double contingency = (chi_square(counts) - 255) / pairs;
      EXPECT_LT(contingency, kMaxContingency + kMaxDeviations * std::sqrt(510) / pairs)
          << "bits from " << place << " of words " << distance << " apart";
    }
  }
}

// Two draws whose keys differ in one part; `index` counts the pairs.
struct Pair {
  std::string name;
  std::function<std::array<std::uint32_t, 2>(std::uint64_t index)> draw;
};

void PrintTo(const Pair& pair, std::ostream* out) { *out << pair.name; }  // NOLINT: gtest's name

std::uint32_t draw_of(std::uint64_t seed, std::uint64_t step, std::uint64_t parameter,
                      std::uint32_t encoder, DrawPurpose purpose, std::uint64_t element) {
  return draw16({DrawStream(seed, step, parameter, encoder, purpose), element / kDrawBlock},
                element % kDrawBlock);
}

Pair elements_apart(std::uint64_t distance) {
  return {"elements_" + std::to_string(distance) + "_apart", [distance](std::uint64_t i) {
            const auto draw = [](std::uint64_t e) {
              return draw_of(1, 2, 3, 4, DrawPurpose::kDither, e);
            };
            // Distance 16: only pairs that share a word.
            const std::uint64_t e = distance == 16 ? i / 16 * 32 + i % 16 : i;
            return std::array{draw(e), draw(e + distance)};
          }};
}

std::vector<Pair> pairs() {
  constexpr DrawPurpose kDither = DrawPurpose::kDither;
  std::vector<Pair> all = {
      {"seeds",
       [](std::uint64_t i) {
         return std::array{draw_of(i, 2, 3, 4, kDither, i % 999),
                           draw_of(i + 1, 2, 3, 4, kDither, i % 999)};
       }},
      {"steps",
       [](std::uint64_t i) {
         return std::array{draw_of(1, i / 64, 3, 4, kDither, i % 64),
                           draw_of(1, i / 64 + 1, 3, 4, kDither, i % 64)};
       }},
      {"parameters",
       [](std::uint64_t i) {
         return std::array{draw_of(1, 2, i / 64, 4, kDither, i % 64),
                           draw_of(1, 2, i / 64 + 1, 4, kDither, i % 64)};
       }},
      {"encoders",
       [](std::uint64_t i) {
         return std::array{draw_of(1, i / 64, 3, 0, kDither, i % 64),
                           draw_of(1, i / 64, 3, 1, kDither, i % 64)};
       }},
      {"many_encoders",
       [](std::uint64_t i) {
         const auto encoder = static_cast<std::uint32_t>(i / 64);
         return std::array{draw_of(1, 2, 3, encoder, kDither, i % 64),
                           draw_of(1, 2, 3, encoder + 1, kDither, i % 64)};
       }},
      {"purposes",
       [](std::uint64_t i) {
         return std::array{draw_of(1, 2, 3, 4, kDither, i),
                           draw_of(1, 2, 3, 4, DrawPurpose::kRounding, i)};
       }},
      {"step_and_parameter_swapped",
       [](std::uint64_t i) {
         return std::array{draw_of(1, i / 64, 77, 4, kDither, i % 64),
                           draw_of(1, 77, i / 64, 4, kDither, i % 64)};
       }},
  };
  for (const std::uint64_t distance : {1, 2, 8, 15, 16, 17, 32, 64, 128, 256, 257, 1024}) {
    all.push_back(elements_apart(distance));
  }
  return all;
}

class EveryPair : public testing::TestWithParam<Pair> {};

INSTANTIATE_TEST_SUITE_P(DrawQuality, EveryPair, testing::ValuesIn(pairs()),
                         [](const auto& param) { return param.param.name; });

TEST_P(EveryPair, IsIndependent) {
  constexpr std::uint64_t kPairs = 1 << 18;
  double correlation = 0;
  std::vector<std::uint32_t> high(256);       // by the upper four bits of both
  std::vector<std::uint32_t> low(256);        // by the lower four bits of both
  std::vector<std::uint32_t> crossed(256);    // upper four of one, lower four of the other
  std::vector<std::uint32_t> changed(0x100);  // by the upper eight bits of the exclusive or
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const auto [a, b] = GetParam().draw(i);
    correlation += ((a + 0.5) / 65536 - 0.5) * ((b + 0.5) / 65536 - 0.5) * 12;
    ++high[a >> 12 << 4 | b >> 12];
    ++low[(a & 15) << 4 | (b & 15)];
    ++crossed[a >> 12 << 4 | (b & 15)];
    ++changed[(a ^ b) >> 8];
  }
  EXPECT_LT(std::abs(correlation) / std::sqrt(kPairs), kMaxDeviations);
  EXPECT_LT(std::abs(deviations(high)), kMaxDeviations);
  EXPECT_LT(std::abs(deviations(low)), kMaxDeviations);
  EXPECT_LT(std::abs(deviations(crossed)), kMaxDeviations);
  EXPECT_LT(std::abs(deviations(changed)), kMaxDeviations);
}

}  // namespace
}  // namespace nf
