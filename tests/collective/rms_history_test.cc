// Sums in units of the RMS history: equal on all ranks, exact where the codec is, and with errors
// in proportion to the history.
#include "collective/rms_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "neuron_fabric/reduce_scatter.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::on_all_ranks;
using testing::HasSubstr;

constexpr std::uint64_t kParameter = 4;
constexpr std::size_t kCount = 5000;  // the last group and the last super-group are partial

// Groups of 16 differ by up to 2^12 in size.
float size_of_group(std::size_t i) { return std::ldexp(1.0F, -static_cast<int>(i / 16 % 13)); }

std::vector<float> uneven_values(std::uint64_t step, std::uint32_t rank) {
  std::vector<float> values = test::Generator(1000 * step + rank).normal(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] *= size_of_group(i);
  return values;
}

// The sums of all ranks.
std::vector<double> exact_sums(std::uint64_t step, std::uint32_t ranks) {
  std::vector<double> sums(kCount, 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = uneven_values(step, rank);
    for (std::size_t i = 0; i < kCount; ++i) sums[i] += double{values[i]};
  }
  return sums;
}

Status sum_once(AllReduce& sum, std::uint64_t step, Values values, float loss_scale = 1) {
  const Gradient gradient{.parameter = kParameter, .values = values};
  return sum.run({.step = step, .gradients = std::span(&gradient, 1), .loss_scale = loss_scale});
}

TEST(RmsHistory, ScalesByTheNearestPowerOfTwo) {
  RmsHistory history;
  std::vector<float> first(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    first[i] = size_of_group(i) / 64 * (1 + static_cast<float>(i / 16 % 7) / 7);
  }
  for (std::size_t step = 0; step < RmsHistory::kMaxSteps; ++step) {
    history.commit(kParameter, first, 1);
  }
  std::vector<float> factors(kCount, 1.0F);
  ASSERT_TRUE(history.scale(kParameter, factors).ok());
  for (std::size_t i = 0; i < kCount; ++i) {
    const float scaled = factors[i] * first[i];
    int exponent = 0;
    EXPECT_EQ(std::frexp(factors[i], &exponent), 0.5F) << i;
    EXPECT_LT(scaled, 1.47F) << i;  // the square root of 2, the rest of the mean, and BF16
    // An element below a tenth of the RMS of its 256 elements has the factor of that floor.
    if (size_of_group(i) > 0x1p-4F) {
      EXPECT_GT(scaled, 0.69F) << i;
    }
  }
  history.unscale(kParameter, factors);
  EXPECT_THAT(factors, testing::Each(1.0F));
}

TEST(RmsHistory, GivesBlocksWithoutHistoryTheMeanOfTheirParameter) {
  RmsHistory history;
  std::vector<float> first(1024, 0.0F);
  std::fill_n(first.begin(), 512, 0.25F);
  history.commit(kParameter, first, 1);
  std::vector<float> factors(1024, 1.0F);
  ASSERT_TRUE(history.scale(kParameter, factors).ok());
  EXPECT_EQ(factors[0], 16.0F);     // of 0.05 / 16, with the inverse root 17.9
  EXPECT_EQ(factors[1000], 32.0F);  // of 0.05 / 32, with the inverse root 25.3
}

TEST(RmsHistory, IsAMeanWithoutTheLossScale) {
  RmsHistory history;
  const std::vector<float> low(16, 3.0F);
  const std::vector<float> high(16, 40.0F);
  history.commit(kParameter, low, 1);
  history.commit(kParameter, high, 0.1F);
  const std::vector<MemoryEntry> memory = history.save_memory();
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_NEAR(memory[0].values[0], 0.05F * (0.95F * 9.0F + 16.0F), 0.01F);  // BF16 has 8 bits
  history.commit(kParameter, std::vector<float>(16, 0.0F), 1);  // perhaps unused: no change
  EXPECT_EQ(history.save_memory(), memory);
}

TEST(RmsHistory, RejectsMemoryThatIsNoHistory) {
  RmsHistory history;
  MemoryEntry entry{.parameter = kParameter, .kind = "rms_history", .rows = 3, .values = {1, -1}};
  EXPECT_THAT(history.load_memory(std::span(&entry, 1)).message(), HasSubstr("no BF16 squares"));
  entry.values = {1, 1.001F};
  EXPECT_THAT(history.load_memory(std::span(&entry, 1)).message(), HasSubstr("no BF16 squares"));
  entry.values = {1, std::numeric_limits<float>::infinity()};
  EXPECT_THAT(history.load_memory(std::span(&entry, 1)).message(), HasSubstr("NaN or Inf"));
  entry.values = {1, 1};
  entry.rows = 101;
  EXPECT_THAT(history.load_memory(std::span(&entry, 1)).message(), HasSubstr("101 steps"));
  entry.rows = 3;
  ASSERT_TRUE(history.load_memory(std::span(&entry, 1)).ok());
  std::vector<float> values(16, 1.0F);
  EXPECT_THAT(history.scale(kParameter, values).message(),
              HasSubstr("has 2 values, but the parameter now has 16"));
}

struct Case {
  Topology topology;
  DataType type;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << to_string(one.topology) << " " << to_string(one.type);
}

class EveryTopology : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(RmsHistory, EveryTopology,
                         testing::Values(Case{Topology::kRing, DataType::kFloat32},
                                         Case{Topology::kTree, DataType::kBfloat16},
                                         Case{Topology::kDirect, DataType::kFloat16},
                                         Case{Topology::kDirect, DataType::kFloat32},
                                         Case{Topology::kHalvingDoubling, DataType::kBfloat16},
                                         Case{Topology::kHierarchical, DataType::kFloat32},
                                         Case{Topology::kHierarchical, DataType::kBfloat16}));

TEST_P(EveryTopology, LeavesTheSameBitsOnAllRanks) {
  constexpr std::uint32_t kRanks = 4;
  std::vector<std::vector<std::vector<float>>> sums(kRanks);
  std::vector<std::vector<MemoryEntry>> memories(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = "waterfill:4+rms",
                                                   .topology = GetParam().topology,
                                                   .host_group_size = 2,
                                                   .tile_bytes = 700});
    ASSERT_TRUE(sum) << to_string(sum.status());
    for (std::uint64_t step = 0; step < 4; ++step) {
      test::TypedValues values(GetParam().type, uneven_values(step, transport.rank()));
      const Status status = sum_once(**sum, step, values.view());
      ASSERT_TRUE(status.ok()) << to_string(status);
      sums[transport.rank()].push_back(values.widened());
    }
    memories[transport.rank()] = (*sum)->save_memory();
  });
  ASSERT_EQ(memories[0].size(), 1U);
  EXPECT_EQ(memories[0][0].values.size(), kCount);
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    EXPECT_EQ(sums[rank], sums[0]);
    EXPECT_EQ(memories[rank], memories[0]);
  }
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::vector<double> exact = exact_sums(step, kRanks);
    double error = 0;
    double energy = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      error += std::pow(double{sums[0][step][i]} - exact[i], 2);
      energy += exact[i] * exact[i];
    }
    EXPECT_LT(error, 0.15 * energy) << "step " << step;
  }
}

TEST(RmsHistory, BeginsWithPlainValuesAndAlphaZero) {
  on_all_ranks(2, [](Transport& transport) {
    const auto scaled = AllReduce::create(transport, {.codec = "waterfill:4+rms"});
    const auto plain = AllReduce::create(transport, {.codec = "waterfill:4+alpha=0"});
    const auto other = AllReduce::create(transport, {.codec = "waterfill:4"});
    std::vector<std::vector<float>> sums;
    for (const auto& sum : {&scaled, &plain, &other}) {
      auto loud = uneven_values(0, transport.rank());
      auto quiet = uneven_values(1, transport.rank());
      for (float& value : quiet) value *= 0x1p-6F;
      const Gradient gradients[] = {{.parameter = kParameter, .values = Values(loud)},
                                    {.parameter = kParameter + 1, .values = Values(quiet)}};
      ASSERT_TRUE((**sum)->run({.step = 0, .gradients = gradients}).ok());
      sums.push_back(quiet);
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_NE(sums[0], sums[2]);
  });
}

// With a single host group nothing is quantised.
TEST(RmsHistory, DoesNotChangeAnExactSum) {
  on_all_ranks(3, [](Transport& transport) {
    const AllReduceOptions options{
        .codec = "waterfill:4", .topology = Topology::kHierarchical, .host_group_size = 3};
    AllReduceOptions with = options;
    with.codec = "waterfill:4+rms";
    const auto plain = AllReduce::create(transport, options);
    const auto scaled = AllReduce::create(transport, with);
    ASSERT_TRUE(plain && scaled);
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto expected = uneven_values(step, transport.rank());
      auto values = expected;
      ASSERT_TRUE(sum_once(**plain, step, Values(expected)).ok());
      ASSERT_TRUE(sum_once(**scaled, step, Values(values)).ok());
      EXPECT_EQ(values, expected);
    }
    EXPECT_FALSE((*scaled)->save_memory().empty());
  });
}

// The error of the step after 20 others, with each element divided by the size of its group.
double felt_error(const std::string& codec) {
  constexpr std::uint32_t kRanks = 4;
  double error = 0;
  on_all_ranks(kRanks, [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = codec, .topology = Topology::kDirect});
    ASSERT_TRUE(sum) << to_string(sum.status());
    for (std::uint64_t step = 0; step <= 20; ++step) {
      auto values = uneven_values(step, transport.rank());
      ASSERT_TRUE(sum_once(**sum, step, Values(values)).ok());
      if (step < 20 || transport.rank() != 0) continue;
      const std::vector<double> exact = exact_sums(step, kRanks);
      for (std::size_t i = 0; i < kCount; ++i) {
        error += std::pow((double{values[i]} - exact[i]) / double{size_of_group(i)}, 2) / kCount;
      }
    }
  });
  return error;
}

TEST(RmsHistory, LowersTheErrorInUnitsOfTheRms) {
  for (const std::string codec : {"waterfill:4", "rotated:3"}) {
    EXPECT_LT(felt_error(codec + "+rms"), felt_error(codec) / 3) << codec;
  }
}

TEST(RmsHistory, IsUnchangedByANonFiniteSum) {
  on_all_ranks(2, [](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = "waterfill:4+rms"});
    auto values = uneven_values(0, transport.rank());
    ASSERT_TRUE(sum_once(**sum, 0, Values(values)).ok());
    const std::vector<MemoryEntry> memory = (*sum)->save_memory();
    values = uneven_values(1, transport.rank());
    if (transport.rank() == 1) values[77] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(sum_once(**sum, 1, Values(values)).ok());
    EXPECT_TRUE(std::isnan(values[77]));
    EXPECT_EQ((*sum)->save_memory(), memory);
  });
}

TEST(RmsHistory, MustBeEqualOnAllRanks) {
  on_all_ranks(2, [](Transport& transport) {
    const auto sum = AllReduce::create(transport, {.codec = "waterfill:4+rms"});
    if (transport.rank() == 1) {
      const MemoryEntry entry{.parameter = kParameter,
                              .kind = "rms_history",
                              .rows = 1,
                              .values = std::vector<float>(kCount, 2.0F)};
      ASSERT_TRUE((*sum)->load_memory(std::span(&entry, 1)).ok());
    }
    auto values = uneven_values(0, transport.rank());
    const Status status = sum_once(**sum, 0, Values(values));
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_THAT(status.message(), HasSubstr("ranks 0 and 1 have different RMS histories; load the "
                                            "same checkpoint on all ranks"));
    EXPECT_EQ(values, uneven_values(0, transport.rank()));
  });
}

TEST(RmsHistory, IsRejectedWhereRanksShareNoSum) {
  const auto alone = InprocNetwork(1).endpoint(0);
  const auto scatter =
      ReduceScatter::create(*alone, {.codec = "waterfill:4+rms", .topology = Topology::kDirect});
  ASSERT_FALSE(scatter);
  EXPECT_EQ(scatter.status().code(), ErrorCode::kBadConfig);
  EXPECT_THAT(scatter.status().message(), HasSubstr("'waterfill:4+rms'"));
  EXPECT_THAT(scatter.status().message(), HasSubstr("omit +rms"));
  const auto both = AllReduce::create(*alone, {.codec = "waterfill:4+ef+rms"});
  ASSERT_FALSE(both);
  EXPECT_THAT(both.status().message(), HasSubstr("+ef and +rms exclude each other"));
}

}  // namespace
}  // namespace nf
