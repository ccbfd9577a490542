// Every codec with every topology of a reduce-scatter: the owner of each shard has the sum.
#include "neuron_fabric/reduce_scatter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "support/codec_cases.h"
#include "support/generator.h"
#include "support/shards.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::Parameters;
using test::reduce_scatter;
using test::Shards;

using Sizes = std::vector<std::vector<std::size_t>>;  // by shard

constexpr std::uint32_t kRanks[] = {1, 2, 3, 4, 5, 8};
constexpr Topology kFlat[] = {Topology::kDirect, Topology::kRing};
constexpr Topology kTopologies[] = {Topology::kDirect, Topology::kRing, Topology::kHierarchical};

// Uneven shards, some of them empty.
Sizes uneven(std::uint32_t ranks) {
  const Sizes all = {{3000, 0, 1}, {},   {257, 5121}, {700, 33, 40, 2},
                     {0, 0},       {31}, {256, 256},  {4000, 1025}};
  return {all.begin(), all.begin() + ranks};
}

Sizes even(std::uint32_t ranks, std::size_t count) { return Sizes(ranks, {count}); }

template <typename Make>
std::vector<Shards> of_all_ranks(const Sizes& sizes, Make make) {
  std::vector<Shards> by_rank;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    test::Generator random(rank + 1);
    Shards& shards = by_rank.emplace_back();
    for (const auto& counts : sizes) {
      Parameters& parameters = shards.emplace_back();
      for (const std::size_t count : counts) parameters.push_back(make(random, count));
    }
  }
  return by_rank;
}

std::vector<Shards> normal_values(const Sizes& sizes) {
  return of_all_ranks(sizes,
                      [](test::Generator& random, std::size_t n) { return random.normal(n); });
}

// Multiples of 1/8 from -1 to 1: small sums are exact in every 16-bit type.
std::vector<Shards> exact_values(const Sizes& sizes) {
  return of_all_ranks(sizes, [](test::Generator& random, std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = (static_cast<float>(random.below(17)) - 8) / 8;
    return values;
  });
}

// The exact sum of every shard.
std::vector<Parameters> sums_of(const std::vector<Shards>& by_rank) {
  std::vector<Parameters> sums = by_rank.front();
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    for (std::size_t s = 0; s < sums.size(); ++s) {
      for (std::size_t p = 0; p < sums[s].size(); ++p) {
        for (std::size_t i = 0; i < sums[s][p].size(); ++i) sums[s][p][i] += by_rank[rank][s][p][i];
      }
    }
  }
  return sums;
}

// The squared error of all shards, divided by the squared norm.
double error_of(const std::vector<Parameters>& shards, const std::vector<Parameters>& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t s = 0; s < exact.size(); ++s) {
    for (std::size_t p = 0; p < exact[s].size(); ++p) {
      for (std::size_t i = 0; i < exact[s][p].size(); ++i) {
        error += std::pow(double{shards[s][p][i]} - double{exact[s][p][i]}, 2);
        norm += std::pow(double{exact[s][p][i]}, 2);
      }
    }
  }
  return norm == 0 ? error : error / norm;
}

// The shards after an all-reduce in which every part of a shard is a parameter with its
// shard_key().
std::vector<Parameters> all_reduce_shards(const AllReduceOptions& options,
                                          std::vector<Shards> by_rank) {
  test::on_all_ranks(static_cast<std::uint32_t>(by_rank.size()), [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    std::vector<Gradient> gradients;
    const test::ShardViews views(by_rank[transport.rank()]);
    for (std::uint32_t shard = 0; shard < views.shards().size(); ++shard) {
      for (Gradient gradient : views.shards()[shard].gradients) {
        gradient.parameter = shard_key(gradient.parameter, shard);
        gradients.push_back(gradient);
      }
    }
    const Status status = (*sum)->run({.step = 3, .gradients = gradients});
    EXPECT_TRUE(status.ok()) << to_string(status);
  });
  return by_rank.front();
}

struct Case {
  std::string codec;
  Topology topology;
};

class EveryReduceScatter : public testing::TestWithParam<Case> {
 protected:
  AllReduceOptions options() const {
    return {.codec = GetParam().codec,
            .topology = GetParam().topology,
            .host_group_size = GetParam().topology == Topology::kHierarchical ? 2u : 0u,
            .seed = 11,
            .tile_bytes = 700};
  }
  // The numbers of ranks that this topology supports.
  std::vector<std::uint32_t> ranks() const {
    std::vector<std::uint32_t> supported;
    for (const std::uint32_t ranks : kRanks) {
      if (options().host_group_size == 0 || ranks % 2 == 0) supported.push_back(ranks);
    }
    return supported;
  }
};

TEST_P(EveryReduceScatter, IsReproducibleAndIndependentOfTiming) {
  // Every fourth message of rank 0 is late, and those after it with it.
  FaultPlan late;
  for (std::uint64_t operation = 0; operation < 40; operation += 4) {
    late.push_back({.operation = operation,
                    .kind = Fault::Kind::kDelay,
                    .delay = std::chrono::microseconds(200)});
  }
  for (const std::uint32_t ranks : this->ranks()) {
    SCOPED_TRACE(ranks);
    const auto values = normal_values(uneven(ranks));
    const auto result = reduce_scatter(options(), values);
    EXPECT_EQ(reduce_scatter(options(), values), result);
    EXPECT_EQ(reduce_scatter(options(), values, late), result);
    if (ranks == 1) {
      EXPECT_EQ(result.front(), values.front().front());
    }
  }
}

// Compares with the all-reduce of the same values, whose own tests bound its error. Over a ring, an
// all-reduce with waterfill takes bits from the finished sum for its partial sums; a reduce-scatter
// has no finished sum to take them from.
TEST_P(EveryReduceScatter, IsWithinTheErrorOfTheAllReduce) {
  AllReduceOptions options = this->options();
  const double limit = options.topology == Topology::kRing ? 2.2 : 1.05;
  options.tile_bytes = 256 << 10;  // small tiles have room for wider codes in some hops only
  for (const std::uint32_t ranks : this->ranks()) {
    SCOPED_TRACE(ranks);
    const auto values = normal_values(even(ranks, 4096));
    const auto exact = sums_of(values);
    EXPECT_LE(error_of(reduce_scatter(options, values), exact),
              limit * error_of(all_reduce_shards(options, values), exact));
  }
}

TEST_P(EveryReduceScatter, PropagatesNonFiniteValues) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto values = normal_values(even(4, 1000));
    values[1][2][0][300] = bad;
    const auto result = reduce_scatter(options(), values);
    EXPECT_FALSE(std::isfinite(result[2][0][300]));
    for (const std::uint32_t other : {0u, 1u, 3u}) {
      for (const float value : result[other][0]) ASSERT_TRUE(std::isfinite(value)) << other;
    }
  }
}

std::vector<Case> in(std::span<const Topology> topologies, const std::vector<std::string>& codecs) {
  std::vector<Case> cases;
  for (const std::string& codec : codecs) {
    for (const Topology topology : topologies) cases.push_back({codec, topology});
  }
  return cases;
}

std::vector<std::string> every_codec() {
  std::vector<std::string> spellings;
  for (const CodecEntry& entry : builtin_codecs()) spellings.emplace_back(entry.example);
  return spellings;
}

std::string case_name(const testing::TestParamInfo<Case>& param) {
  return test::test_name(param.param.codec) + "_" + std::string(to_string(param.param.topology));
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryReduceScatter,
                         testing::ValuesIn(in(kTopologies, every_codec())), case_name);

using DenseReduceScatter = EveryReduceScatter;

TEST_P(DenseReduceScatter, IsExactIfTheTypeCanRepresentIt) {
  for (const std::uint32_t ranks : this->ranks()) {
    SCOPED_TRACE(ranks);
    const auto values = exact_values(uneven(ranks));
    EXPECT_EQ(reduce_scatter(options(), values), sums_of(values));
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, DenseReduceScatter,
                         testing::ValuesIn(in(kTopologies,
                                              test::codec_spellings([](const Codec& codec) {
                                                return codec.kind() == CodecKind::kDense;
                                              }))),
                         case_name);

using CountingReduceScatter = EveryReduceScatter;

// Counts are exact. So are the sums of scales if all values are 1 or -1, and nothing depends on the
// chunks.
TEST_P(CountingReduceScatter, HasTheBitsOfTheAllReduce) {
  for (const std::uint32_t ranks : this->ranks()) {
    SCOPED_TRACE(ranks);
    const auto values = of_all_ranks(uneven(ranks), [](test::Generator& random, std::size_t count) {
      std::vector<float> signs(count);
      for (float& sign : signs) sign = random.below(2) == 0 ? -1.0f : 1.0f;
      return signs;
    });
    EXPECT_EQ(reduce_scatter(options(), values), all_reduce_shards(options(), values));
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CountingReduceScatter,
                         testing::ValuesIn(in(kFlat, test::codec_spellings([](const Codec& codec) {
                                                return codec.kind() == CodecKind::kCounting &&
                                                       codec.spec().to_string().find("saturate") ==
                                                           std::string::npos;
                                              }))),
                         case_name);

TEST(ReduceScatter, HasLessThanSixTenthsOfTheErrorOfTheAllReduceOverDirect) {
  const auto values = of_all_ranks(
      even(8, 64 * 256), [](test::Generator& random, std::size_t n) { return random.mixture(n); });
  const auto exact = sums_of(values);
  const AllReduceOptions options{.codec = "waterfill:4", .topology = Topology::kDirect};
  const double scattered = error_of(reduce_scatter(options, values), exact);
  const double reduced = error_of(all_reduce_shards(options, values), exact);
  RecordProperty("ratio", std::to_string(scattered / reduced));
  EXPECT_LT(scattered, 0.6 * reduced) << scattered << " of " << reduced;
}

// Partial sums are FP32; the finished sum is rounded once.
TEST(ReduceScatter, RoundsSixteenBitValuesOnce) {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    for (const char* codec : {"fp32", "waterfill:4", "waterfill:2+ef", "g_binary", "marsit"}) {
      for (const Topology topology : kTopologies) {
        for (const std::uint32_t ranks : {2u, 4u}) {
          SCOPED_TRACE(testing::Message()
                       << codec << " over " << to_string(topology) << " among " << ranks);
          const AllReduceOptions options{
              .codec = codec, .topology = topology, .host_group_size = 2, .tile_bytes = 900};
          const auto values =
              of_all_ranks(even(ranks, 1500), [&](test::Generator& random, std::size_t count) {
                return test::rounded_to(type, random.normal(count));
              });
          const auto as_fp32 = reduce_scatter(options, values);
          test::on_all_ranks(ranks, [&](Transport& transport) {
            std::vector<test::TypedValues> typed;
            std::vector<Gradient> gradients;
            std::vector<Shard> shards;
            for (const Parameters& shard : values[transport.rank()]) {
              typed.emplace_back(type, shard.front());
            }
            for (test::TypedValues& shard : typed) {
              gradients.push_back({.parameter = parameter_key("p0"), .values = shard.view()});
            }
            for (const Gradient& gradient : gradients) shards.push_back({std::span(&gradient, 1)});
            const auto sum = ReduceScatter::create(transport, options);
            ASSERT_TRUE((*sum)->run({.step = 3, .shards = shards}).ok());
            EXPECT_TRUE(test::same_bits(typed[transport.rank()].widened(),
                                        test::rounded_to(type, as_fp32[transport.rank()].front())));
          });
        }
      }
    }
  }
}

TEST(ReduceScatter, HasAKeyForEveryPartOfAParameter) {
  std::set<std::uint64_t> keys;
  for (const char* name : {"a", "b", "c"}) {
    keys.insert(parameter_key(name));
    for (std::uint32_t shard = 0; shard < 100; ++shard) {
      keys.insert(shard_key(parameter_key(name), shard));
    }
  }
  EXPECT_EQ(keys.size(), 303u);
}

}  // namespace
}  // namespace nf
