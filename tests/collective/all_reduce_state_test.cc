// The state of an all-reduce between calls: residuals and the factors of powersgd.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/float16.h"
#include "neuron_fabric/all_reduce.h"
#include "support/normal.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Parameters;

std::vector<float> normal_values(std::uint32_t seed, std::size_t count, float quiet = 0.03f) {
  std::mt19937 random(seed);
  test::Normal normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Some super-groups are small, so that a small budget drops them.
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

// Without feedback the squared error of a mean over T calls falls as 1/T, with it as 1/T^2.
TEST(ErrorFeedback, CompensatesEncodingErrors) {
  for (const Topology topology : {Topology::kRing, Topology::kDirect, Topology::kTree}) {
    const AllReduceOptions with{.codec = "waterfill:2+ef", .topology = topology};
    const double once = error_of_mean(with, 4, 1);
    const double often = error_of_mean(with, 4, 100);
    EXPECT_LT(often, once / 200) << to_string(topology);
  }
}

// A rank compensates the error of its own signs; the random choice between signs averages out.
TEST(ErrorFeedback, CompensatesAMergingCodec) {
  const AllReduceOptions with{.codec = "marsit+ef"};
  EXPECT_LT(error_of_mean(with, 4, 100, 0, 1), error_of_mean(with, 4, 1, 0, 1) / 10);
}

// The error of a rank's own message is compensated; the error of using the mean of the ranks'
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

TEST(ErrorFeedback, IsUnchangedByANonFiniteStep) {
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

// If a rank adds several messages to 16-bit values, it accumulates in FP32.
TEST(AllReduce, AccumulatesSixteenBitValuesInFp32) {
  constexpr std::uint32_t kRanks = 8;
  for (const auto& [codec, bound] : {std::pair("fp32", 0.0f), std::pair("waterfill:8", 8.0f)}) {
    on_all_ranks(kRanks, [codec = codec, bound = bound](Transport& transport) {
      // 256 on rank 0, otherwise 1 + 1/128: a BF16 sum of both would lose the fraction.
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

TEST(AllReduce, CountsSentBytes) {
  on_all_ranks(4, [](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = "waterfill:4"});
    auto values = normal_values(1, 1 << 18);
    const Gradient gradient{.parameter = 4, .values = Values(values)};
    ASSERT_TRUE((*sum)->run({.gradients = std::span(&gradient, 1)}).ok());
    const Traffic traffic = (*sum)->traffic();
    // A rank sends 1.5 times the values at 4 bits each, statistics included.
    const double bits = 8.0 * static_cast<double>(traffic.statistics + traffic.payload);
    EXPECT_NEAR(bits / (1.5 * (1 << 18)), 4, 0.08);
    EXPECT_GT(traffic.agreement, 0u);
  });
}

TEST(AllReduce, CountsFinishedSumsSeparately) {
  constexpr std::size_t kCount = 4 * 13 * 5120;  // whole blocks on every rank
  on_all_ranks(4, [](Transport& transport) {
    const auto sum =
        AllReduce::create(transport, {.codec = "g_binary", .topology = Topology::kDirect});
    auto values = normal_values(1, kCount);
    const Gradient gradient{.parameter = 4, .values = Values(values)};
    ASSERT_TRUE((*sum)->run({.gradients = std::span(&gradient, 1)}).ok());
    const Traffic traffic = (*sum)->traffic();
    // For three quarters of the values: a sign to the owner, and a count from 0 to 4 (3 bits) back.
    EXPECT_NEAR(8.0 * static_cast<double>(traffic.up()) / (0.75 * kCount), 1, 0.05);
    EXPECT_NEAR(8.0 * static_cast<double>(traffic.sums) / (0.75 * kCount), 3, 0.05);
    EXPECT_EQ(traffic.up() + traffic.sums, traffic.total());
  });
}

}  // namespace
}  // namespace nf
