#include "codec/super_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "base/float16.h"
#include "codec/super_group_kernels.h"
#include "codec/wire_bytes.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::Generator;

struct Statistics {
  float mean;
  float energy;
};

Statistics read(const std::byte* at) {
  return {bfloat16_to_float(get_u16(at)), bfloat16_to_float(get_u16(at + 2))};
}

Statistics statistics_of(const std::vector<float>& values) {
  std::byte out[kSuperGroupStatistics];
  super_group_statistics(values.data(), values.size(), out);
  return read(out);
}

std::vector<std::byte> wire_of(Statistics statistics) {
  std::vector<std::byte> wire(kSuperGroupStatistics);
  put_u16(float_to_bfloat16(statistics.mean), wire.data());
  put_u16(float_to_bfloat16(statistics.energy), wire.data() + 2);
  return wire;
}

Statistics combined(const std::vector<Statistics>& by_rank, std::size_t count = kSuperGroup) {
  std::vector<std::vector<std::byte>> wires;
  for (const Statistics& statistics : by_rank) wires.push_back(wire_of(statistics));
  const std::vector<std::span<const std::byte>> spans(wires.begin(), wires.end());
  std::vector<std::byte> out(kSuperGroupStatistics);
  combine_super_group_statistics(count, spans, out);
  return read(out.data());
}

constexpr float kHalfStep = 0x1p-8f;  // of BF16, relative

TEST(SuperGroupStatistics, AreTheMeanAndTheEnergyAboutIt) {
  Generator random(1);
  for (const std::size_t count : {1u, 2u, 31u, 100u, 256u}) {
    std::vector<float> values = random.normal(count);
    for (float& value : values) value += 0.5f;
    double mean = 0;
    for (const float value : values) mean += value / static_cast<double>(count);
    double energy = 0;
    for (const float value : values) energy += (value - mean) * (value - mean);
    const Statistics statistics = statistics_of(values);
    EXPECT_NEAR(statistics.mean, mean, std::abs(mean) * kHalfStep);
    EXPECT_NEAR(statistics.energy, energy, energy * kHalfStep + 1e-4) << count;
  }
}

TEST(SuperGroupStatistics, OfConstantsHaveNoEnergy) {
  EXPECT_EQ(statistics_of(std::vector<float>(256, 3.0f)).energy, 0.0f);
  EXPECT_EQ(statistics_of(std::vector<float>(256, 3.0f)).mean, 3.0f);
  EXPECT_GE(statistics_of(std::vector<float>(200, 0.1f)).energy, 0.0f);  // never negative
}

TEST(SuperGroupStatistics, MarkNonFiniteValues) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(256, 1.0f);
    values[100] = poison;
    EXPECT_FALSE(std::isfinite(statistics_of(values).energy));
  }
}

TEST(SuperGroupStatistics, AreTheSameOnEveryIsa) {
  for (int round = 0; round < test::rounds_of(10); ++round) {
    Generator random(2 + static_cast<std::uint64_t>(round));
    const std::size_t groups = 1 + random.below(20);
    const std::vector<float> values = round % 2 == 0 ? random.mixture(groups * kSuperGroup)
                                                     : random.hostile(groups * kSuperGroup);
    std::vector<std::byte> expected(groups * kSuperGroupStatistics);
    super_group_kernels(Isa::kScalar).statistics(values.data(), groups, expected.data());
    for (const Isa isa : available_isas()) {
      std::vector<std::byte> actual(expected.size());
      super_group_kernels(isa).statistics(values.data(), groups, actual.data());
      EXPECT_TRUE(test::same_bytes(actual, expected)) << to_string(isa);
    }
  }
}

TEST(CombinedStatistics, AreTheMeanOfMeansAndTheSumOfEnergies) {
  const Statistics sum = combined({{1.0f, 10.0f}, {3.0f, 20.0f}});
  EXPECT_EQ(sum.mean, 2.0f);
  EXPECT_EQ(sum.energy, 30.0f);
}

TEST(CombinedStatistics, DropAMeanBelowA32ndOfTheEnergyOfTheSum) {
  for (const std::size_t ranks : {1u, 2u, 8u}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    // The sum has 256 values of mean R / 4, an energy of 16 R^2: 32 times that is 512 R^2.
    std::vector<Statistics> by_rank(ranks, {0.25f, 512.0f * static_cast<float>(ranks)});
    EXPECT_EQ(combined(by_rank).mean, 0.25f);
    // The mean of a partial super-group has less energy.
    EXPECT_EQ(combined(by_rank, 255).mean, 0.0f);
    by_rank.back().energy *= 1 + 2 * kHalfStep;
    EXPECT_EQ(combined(by_rank).mean, 0.0f);
  }
}

TEST(CombinedStatistics, HaveNoMeanOfMinusZero) {
  EXPECT_FALSE(std::signbit(combined({{-0.0f, 0.0f}, {-0.0f, 0.0f}}).mean));
  EXPECT_FALSE(std::signbit(combined({{-1e-30f, 1.0f}}).mean));
}

TEST(CombinedStatistics, HaveNoNonFiniteMean) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(combined({{kNan, kNan}, {1.0f, 1.0f}}).mean, 0.0f);
  EXPECT_EQ(combined({{kInfinity, kNan}, {1.0f, 1.0f}}).mean, 0.0f);
  EXPECT_FALSE(std::isfinite(combined({{kNan, kNan}, {1.0f, 1.0f}}).energy));
}

TEST(SuperGroupMessages, AreRejectedIfAByteBetweenScalesAndCodesIsNotZero) {
  constexpr std::size_t kCount = kSuperGroup + 1;
  const std::vector<test::TypedValues> by_rank = {
      test::TypedValues(DataType::kFloat32, Generator(3).normal(kCount))};
  // Two units and a byte of scales per 32 or 16 values, then zeros up to a multiple of 16 bytes.
  for (const auto& [spelling, used, codes_at] :
       {std::tuple{"waterfill+width=4", 4 + 9, 16}, std::tuple{"dynamiq+width=4", 4 + 17, 32}}) {
    const std::unique_ptr<Codec> codec = test::make_for(available_isas().front(), spelling);
    const test::CodecContext context(*codec, by_rank);
    const test::Message message = test::encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
    for (int at = used; at < codes_at; ++at) {
      test::Message damaged = message;
      damaged[static_cast<std::size_t>(at)] = std::byte{1};
      std::vector<float> out(kCount, 1.0f);
      EXPECT_EQ(codec->decode(context.whole(), {0, 1}, damaged, Values(out)).code(),
                ErrorCode::kCorruptFrame)
          << spelling << " at " << at;
      EXPECT_EQ(out, std::vector<float>(kCount, 1.0f));
    }
  }
}

TEST(SuperGroups, CountIncludesThePartialOne) {
  EXPECT_EQ(super_groups_of(0), 0u);
  EXPECT_EQ(super_groups_of(1), 1u);
  EXPECT_EQ(super_groups_of(256), 1u);
  EXPECT_EQ(super_groups_of(257), 2u);
}

}  // namespace
}  // namespace nf
