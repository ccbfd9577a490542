// What an all-reduce keeps from call to call: error feedback, the factors of powersgd.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/float16.h"
#include "neuron_fabric/all_reduce.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Parameters;

std::vector<float> normal_values(std::uint32_t seed, std::size_t count, float quiet = 0.03f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Some super-groups are quiet, so that a small budget leaves them out.
    values[i] = normal(random) * (i / 256 % 4 == 0 ? 1.0f : quiet);
  }
  return values;
}

// The relative squared error of the mean result over `steps` calls with the same gradients.
double error_of_mean(const AllReduceOptions& options, std::uint32_t ranks, int steps,
                     std::size_t rows = 0, float quiet = 0.03f) {
  constexpr std::size_t kCount = 4096;
  std::vector<double> exact(kCount, 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto values = normal_values(rank + 1, kCount, quiet);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += double{values[i]};
  }
  std::vector<double> mean(kCount, 0);
  on_all_ranks(ranks, [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    for (int step = 0; step < steps; ++step) {
      auto values = normal_values(transport.rank() + 1, kCount, quiet);
      const Gradient gradient{.parameter = 4, .values = Values(values), .rows = rows};
      const Status status = (*sum)->run(
          {.step = static_cast<std::uint64_t>(step), .gradients = std::span(&gradient, 1)});
      ASSERT_TRUE(status.ok()) << to_string(status);
      if (transport.rank() != 0) continue;
      for (std::size_t i = 0; i < kCount; ++i) mean[i] += double{values[i]} / steps;
    }
  });
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error += std::pow(mean[i] - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return error / norm;
}

// Without feedback the error of a mean of T independent errors falls as 1/T, with it as 1/T^2.
TEST(ErrorFeedback, MakesUpForWhatWasLost) {
  for (const Topology topology : {Topology::kRing, Topology::kDirect, Topology::kTree}) {
    const AllReduceOptions with{.codec = "waterfill:2+ef", .topology = topology};
    const double once = error_of_mean(with, 4, 1);
    const double often = error_of_mean(with, 4, 100);
    EXPECT_LT(often, once / 200) << to_string(topology);
  }
}

// The rank makes up for what its own signs lost; that signs are then chosen at random averages out.
TEST(ErrorFeedback, CompensatesAMergingCodec) {
  const AllReduceOptions with{.codec = "marsit+ef"};
  EXPECT_LT(error_of_mean(with, 4, 100, 0, 1), error_of_mean(with, 4, 1, 0, 1) / 10);
}

// What a rank's own message lost is made up for; that a sum of counts takes the mean of the ranks'
// scales is not.
TEST(ErrorFeedback, CompensatesCountedSigns) {
  for (const char* codec : {"g_binary+ef", "g_ternary+ef"}) {
    for (const Topology topology : {Topology::kRing, Topology::kDirect, Topology::kTree}) {
      const AllReduceOptions with{.codec = codec, .topology = topology};
      EXPECT_LT(error_of_mean(with, 4, 100, 0, 1), error_of_mean(with, 4, 1, 0, 1) / 40)
          << codec << ", " << to_string(topology);
    }
  }
}

TEST(PowerSgd, ConvergesWithItsErrorFeedback) {
  const AllReduceOptions options{.codec = "powersgd:4", .topology = Topology::kTree};
  EXPECT_LT(error_of_mean(options, 4, 60, 64), error_of_mean(options, 4, 1, 64) / 20);
}

TEST(ErrorFeedback, IsUntouchedByAStepThatIsNotFinite) {
  const auto results_after_a_bad_step = [](bool has_bad_step) {
    std::vector<float> result;
    on_all_ranks(2, [&](Transport& transport) {
      const auto sum = AllReduce::create(transport, {.codec = "waterfill:2+ef"});
      for (std::uint64_t step = 0; step < 3; ++step) {
        if (step == 1 && !has_bad_step) continue;
        auto values = normal_values(transport.rank() + 1, 2000);
        if (step == 1) values[77] = std::numeric_limits<float>::infinity();
        const Gradient gradient{.parameter = 4, .values = Values(values)};
        EXPECT_TRUE((*sum)->run({.step = step, .gradients = std::span(&gradient, 1)}).ok());
        if (step == 1) {
          EXPECT_TRUE(std::isnan(values[77]));
        }
        if (step == 2 && transport.rank() == 0) result = values;
      }
    });
    return result;
  };
  EXPECT_EQ(results_after_a_bad_step(true), results_after_a_bad_step(false));
}

// 16-bit values over a topology that adds several messages at one place: sums are kept in FP32.
TEST(AllReduce, SumsSixteenBitValuesWithoutRoundingOnTheWay) {
  constexpr std::uint32_t kRanks = 8;
  for (const auto& [codec, bound] : {std::pair("fp32", 0.0f), std::pair("waterfill:8", 8.0f)}) {
    on_all_ranks(kRanks, [codec = codec, bound = bound](Transport& transport) {
      // 1 + 1/128 from everybody, and 256 from rank 0: a BF16 sum of two would lose the fractions.
      const float own = transport.rank() == 0 ? 256.0f : 1.0f + 1.0f / 128;
      std::vector<std::uint16_t> values(512, float_to_bfloat16(own));
      const Gradient gradient{.parameter = 4,
                              .values = Values(values.data(), values.size(), DataType::kBfloat16)};
      const auto sum =
          AllReduce::create(transport, {.codec = codec, .topology = Topology::kDirect});
      ASSERT_TRUE((*sum)->run({.gradients = std::span(&gradient, 1)}).ok());
      const std::uint16_t expected = float_to_bfloat16(256.0f + 7 * (1.0f + 1.0f / 128));
      for (const std::uint16_t value : values) {
        EXPECT_NEAR(bfloat16_to_float(value), bfloat16_to_float(expected), bound) << codec;
      }
    });
  }
}

TEST(AllReduce, CountsWhatItSends) {
  on_all_ranks(4, [](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = "waterfill:4"});
    auto values = normal_values(1, 1 << 18);
    const Gradient gradient{.parameter = 4, .values = Values(values)};
    ASSERT_TRUE((*sum)->run({.gradients = std::span(&gradient, 1)}).ok());
    const Traffic traffic = (*sum)->traffic();
    // Six quarters of the values at four bits each way, statistics among them.
    const double bits = 8.0 * static_cast<double>(traffic.statistics + traffic.payload);
    EXPECT_NEAR(bits / (1.5 * (1 << 18)), 4, 0.08);
    EXPECT_GT(traffic.agreement, 0u);
  });
}

TEST(AllReduce, TellsContributionsFromSums) {
  constexpr std::size_t kCount = 4 * 13 * 5120;  // whole blocks for every rank
  on_all_ranks(4, [](Transport& transport) {
    const auto sum =
        AllReduce::create(transport, {.codec = "g_binary", .topology = Topology::kDirect});
    auto values = normal_values(1, kCount);
    const Gradient gradient{.parameter = 4, .values = Values(values)};
    ASSERT_TRUE((*sum)->run({.gradients = std::span(&gradient, 1)}).ok());
    const Traffic traffic = (*sum)->traffic();
    // Of three quarters of the values a sign goes up; a count from 0 to 4, three bits, comes back.
    EXPECT_NEAR(8.0 * static_cast<double>(traffic.up()) / (0.75 * kCount), 1, 0.05);
    EXPECT_NEAR(8.0 * static_cast<double>(traffic.sums) / (0.75 * kCount), 3, 0.05);
    EXPECT_EQ(traffic.up() + traffic.sums, traffic.total());
  });
}

}  // namespace
}  // namespace nf
