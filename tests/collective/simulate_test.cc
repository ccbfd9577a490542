#include "collective/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/wire_frame.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/shards.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::Generator;
using test::Parameters;
using test::same_bits;

constexpr std::uint64_t kSeed = 11;
constexpr std::uint64_t kStep = 3;
constexpr std::size_t kTileBytes = 700;
const std::vector<std::size_t> kSizes = {3000, 0, 1, 257, 5121, 33};

class StoredValues final : public RankValues {
 public:
  explicit StoredValues(std::vector<Parameters> by_rank) : by_rank_(std::move(by_rank)) {}

  std::span<const float> read(std::uint32_t rank, std::size_t parameter, std::size_t first,
                              std::span<float> scratch) const override {
    return std::span(by_rank_[rank][parameter]).subspan(first, scratch.size());
  }
  const std::vector<Parameters>& by_rank() const { return by_rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(by_rank_.size()); }

  std::vector<SimulatedParameter> parameters() const {
    std::vector<SimulatedParameter> parameters;
    for (const auto& values : by_rank_.front()) {
      const std::string name = "p" + std::to_string(parameters.size());
      parameters.push_back({.key = parameter_key(name), .count = values.size()});
    }
    return parameters;
  }

 private:
  const std::vector<Parameters> by_rank_;
};

// Values drawn by draw(generator) for every rank.
template <typename Draw>
StoredValues values_of(std::uint32_t ranks, const std::vector<std::size_t>& sizes, Draw draw) {
  Generator generator(ranks);
  std::vector<Parameters> by_rank(ranks);
  for (Parameters& parameters : by_rank) {
    for (const std::size_t size : sizes) {
      std::generate_n(std::back_inserter(parameters.emplace_back()), size,
                      [&] { return static_cast<float>(draw(generator)); });
    }
  }
  return StoredValues(std::move(by_rank));
}

StoredValues normal_values(std::uint32_t ranks, const std::vector<std::size_t>& sizes = kSizes) {
  return values_of(ranks, sizes, [](Generator& generator) { return generator.normal(); });
}

std::unique_ptr<Codec> make(const std::string& spelling) {
  auto codec = make_codec(spelling);
  EXPECT_TRUE(codec) << to_string(codec.status());
  return std::move(*codec);
}

Parameters sum_of(const std::string& spelling, Topology topology, const StoredValues& values,
                  std::uint64_t step = kStep, Collective collective = Collective::kAllReduce) {
  const auto codec = make(spelling);
  Parameters sums;
  std::vector<std::span<float>> places;
  for (const auto& parameter : values.by_rank().front()) sums.emplace_back(parameter.size());
  for (auto& sum : sums) places.emplace_back(sum);
  const Status status = simulate_all_reduce(*codec,
                                            {.collective = collective,
                                             .topology = topology,
                                             .ranks = values.ranks(),
                                             .seed = kSeed,
                                             .step = step,
                                             .tile_bytes = kTileBytes},
                                            values.parameters(), values, places);
  EXPECT_TRUE(status.ok()) << to_string(status);
  return sums;
}

Parameters exact_sum(const StoredValues& values) {
  Parameters sums = values.by_rank().front();
  for (std::uint32_t rank = 1; rank < values.ranks(); ++rank) {
    for (std::size_t p = 0; p < sums.size(); ++p) {
      for (std::size_t i = 0; i < sums[p].size(); ++i) sums[p][i] += values.by_rank()[rank][p][i];
    }
  }
  return sums;
}

void expect_same(const Parameters& actual, const Parameters& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t p = 0; p < actual.size(); ++p) {
    EXPECT_TRUE(same_bits(actual[p], expected[p])) << "parameter " << p;
  }
}

class SimulatedTopology : public testing::TestWithParam<Topology> {};

// The examples of the registered codecs of a kind.
std::vector<std::string> examples_of(CodecKind kind) {
  std::vector<std::string> examples;
  for (const CodecEntry& entry : builtin_codecs()) {
    if ((*make_codec(entry.example))->kind() == kind) examples.emplace_back(entry.example);
  }
  return examples;
}

TEST_P(SimulatedTopology, AddsIntegersExactlyWithDenseCodecs) {
  for (const std::string& codec : examples_of(CodecKind::kDense)) {
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      SCOPED_TRACE(codec + " " + std::to_string(ranks));
      const StoredValues values = values_of(ranks, kSizes, [](Generator& generator) {
        return static_cast<double>(generator.below(17)) - 8;
      });
      expect_same(sum_of(codec, GetParam(), values), exact_sum(values));
    }
  }
}

TEST_P(SimulatedTopology, CountsSignsExactly) {
  // All magnitudes and scales are 1: the counts are the sum.
  const std::map<std::string, std::vector<double>> codecs = {{"g_binary", {-1, 1}},
                                                             {"g_ternary", {-1, 0, 1}}};
  for (const auto& [codec, allowed] : codecs) {
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      SCOPED_TRACE(codec + " " + std::to_string(ranks));
      const StoredValues values =
          values_of(ranks, {3000, 257, 5300}, [&digits = allowed](Generator& generator) {
            return digits[generator.below(digits.size())];
          });
      expect_same(sum_of(codec, GetParam(), values), exact_sum(values));
    }
  }
}

TEST_P(SimulatedTopology, HasTheSumOfARingForCountingCodecs) {
  for (const std::string& codec : examples_of(CodecKind::kCounting)) {
    for (const std::uint32_t ranks : {2u, 5u, 8u}) {
      SCOPED_TRACE(codec + " " + std::to_string(ranks));
      const StoredValues values = values_of(
          ranks, kSizes, [](Generator& generator) { return generator.below(2) == 0 ? 1.0 : -1.0; });
      expect_same(sum_of(codec, GetParam(), values), sum_of(codec, Topology::kRing, values));
    }
  }
}

TEST_P(SimulatedTopology, HasTheSameBitsOnlyForTheSameSeed) {
  const StoredValues values = normal_values(5);
  for (const CodecEntry& entry : builtin_codecs()) {
    SCOPED_TRACE(entry.name);
    const std::string codec(entry.example);
    expect_same(sum_of(codec, GetParam(), values), sum_of(codec, GetParam(), values));
  }
  EXPECT_NE(sum_of("waterfill:4", GetParam(), values, kStep),
            sum_of("waterfill:4", GetParam(), values, kStep + 1));
}

TEST_P(SimulatedTopology, AcceptsEmptyAndTinyParameters) {
  for (const CodecEntry& entry : builtin_codecs()) {
    for (const std::vector<std::size_t>& sizes :
         std::vector<std::vector<std::size_t>>{{}, {0}, {1}, {0, 0, 2}, {1, 1, 1}, {31}}) {
      const StoredValues values = normal_values(3, sizes);
      for (const auto& sum : sum_of(std::string(entry.example), GetParam(), values)) {
        EXPECT_THAT(sum, testing::Each(testing::ResultOf([](float x) { return std::isfinite(x); },
                                                         testing::IsTrue())))
            << entry.name;
      }
    }
  }
}

TEST_P(SimulatedTopology, HasTheBitsOfTheExecutor) {
  for (const CodecEntry& entry : builtin_codecs()) {
    for (const std::uint32_t ranks : {2u, 5u}) {
      SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(ranks));
      const StoredValues values = normal_values(ranks);
      const AllReduceOptions options{.codec = std::string(entry.example),
                                     .topology = GetParam(),
                                     .seed = kSeed,
                                     .tile_bytes = kTileBytes};
      expect_same(sum_of(options.codec, GetParam(), values),
                  test::all_reduce(options, values.by_rank(), kStep).front());
    }
  }
}

// The parts of the parameters in every shard.
TEST(SimulatedReduceScatter, HasTheBitsOfTheExecutor) {
  for (const CodecEntry& entry : builtin_codecs()) {
    for (const Topology topology : {Topology::kRing, Topology::kDirect}) {
      for (const std::uint32_t ranks : {1u, 2u, 5u}) {
        SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(ranks));
        const StoredValues values = normal_values(ranks);
        const std::string codec(entry.example);
        std::vector<test::Shards> by_rank(ranks, test::Shards(ranks));
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          for (const std::vector<float>& whole : values.by_rank()[rank]) {
            const std::size_t size = (whole.size() + ranks - 1) / ranks;
            for (std::uint32_t shard = 0; shard < ranks; ++shard) {
              const auto at = [&](std::size_t i) {
                return whole.begin() + static_cast<std::ptrdiff_t>(std::min(i, whole.size()));
              };
              by_rank[rank][shard].emplace_back(at(shard * size), at((shard + 1) * size));
            }
          }
        }
        const std::vector<Parameters> own = test::reduce_scatter(
            {.codec = codec, .topology = topology, .seed = kSeed, .tile_bytes = kTileBytes},
            by_rank);
        Parameters joined(kSizes.size());
        for (const Parameters& shard : own) {
          for (std::size_t p = 0; p < shard.size(); ++p) {
            joined[p].insert(joined[p].end(), shard[p].begin(), shard[p].end());
          }
        }
        expect_same(sum_of(codec, topology, values, kStep, Collective::kReduceScatter), joined);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SimulatedTopology,
                         testing::ValuesIn(flat_topologies().begin(), flat_topologies().end()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST(SimulatedAllReduce, IsTheIdentityForOneRank) {
  for (const std::string codec : {"g_binary", "waterfill:4", "mxfp4"}) {
    const StoredValues values = normal_values(1);
    expect_same(sum_of(codec, Topology::kRing, values), values.by_rank().front());
  }
}

TEST(SimulatedAllReduce, ForwardsOneMessageAlongTheRing) {
  // A single granule is chunk 0, which starts at rank 1 and ends at rank 0.
  for (const std::string spelling : {"waterfill+width=3", "dynamiq+width=4", "mxfp6", "bf16"}) {
    SCOPED_TRACE(spelling);
    const auto codec = make(spelling);
    const StoredValues values = normal_values(3, {std::min<std::size_t>(codec->granule(), 200)});
    std::vector<test::TypedValues> by_rank;
    for (const Parameters& own : values.by_rank()) by_rank.emplace_back(DataType::kFloat32, own[0]);
    test::CodecContext context(*codec, by_rank);
    context.seed = kSeed;
    context.step = kStep;
    context.parameter = values.parameters()[0].key;
    const std::uint32_t order[] = {1, 2, 0};
    const test::Message sum = test::chain(*codec, context.whole(), by_rank, order);
    EXPECT_TRUE(
        same_bits(sum_of(spelling, Topology::kRing, values)[0],
                  test::decode(*codec, context.whole(), {.encoder = 0, .contributions = 3}, sum)));
  }
}

TEST(SimulatedAllReduce, CountsMessagesAndHeaders) {
  const StoredValues values = normal_values(4, {1000});
  const auto codec = make("mxfp8");
  auto sum = SimulatedAllReduce::create(*codec, {.ranks = 4}, values.parameters(), values);
  ASSERT_TRUE(sum) << to_string(sum.status());
  for (std::uint32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(sum->compute_statistics(rank).ok());
  ASSERT_TRUE(sum->make_plan().ok());
  std::uint64_t bytes = 0;
  std::size_t summed = 0;
  for (std::uint32_t chunk = 0; chunk < sum->chunks(); ++chunk) {
    const auto sent =
        sum->sum_chunk(chunk, [&](const SummedPiece& piece) { summed += piece.sum.size(); });
    ASSERT_TRUE(sent) << to_string(sent.status());
    bytes += *sent;
  }
  EXPECT_EQ(summed, 1000u);
  // 32 blocks of 32 bytes cross 6 links, in 4 chunks of one message each.
  EXPECT_EQ(bytes, 6 * 32 * 32 + 4 * 6 * kFrameHeaderBytes);
  EXPECT_EQ(sum->statistics_bytes(), 6 * 32u);
}

TEST(SimulatedAllReduce, ReportsTheExactSumAndDroppedValues) {
  const StoredValues values = normal_values(3, {4096});
  const auto codec = make("topkc:4");
  auto sum = SimulatedAllReduce::create(*codec, {.ranks = 3}, values.parameters(), values);
  ASSERT_TRUE(sum) << to_string(sum.status());
  for (std::uint32_t rank = 0; rank < 3; ++rank) ASSERT_TRUE(sum->compute_statistics(rank).ok());
  ASSERT_TRUE(sum->make_plan().ok());
  std::size_t dropped = 0;
  for (std::uint32_t chunk = 0; chunk < sum->chunks(); ++chunk) {
    const auto sent = sum->sum_chunk(chunk, [&](const SummedPiece& piece) {
      for (std::size_t i = 0; i < piece.sum.size(); ++i) {
        double exact = 0;
        for (const Parameters& own : values.by_rank()) exact += own[0][piece.piece.first + i];
        EXPECT_NEAR(piece.exact[i], exact, 1e-12);
        if (piece.dropped.empty() || piece.dropped[i] == 0) continue;
        ++dropped;
        EXPECT_EQ(piece.sum[i], 0);
        EXPECT_NEAR(piece.dropped[i], exact, 1e-12);
      }
    });
    ASSERT_TRUE(sent) << to_string(sent.status());
  }
  EXPECT_NEAR(static_cast<double>(dropped), 0.75 * 4096, 300);
}

TEST(SimulatedAllReduce, RejectsUnsupportedOptions) {
  const StoredValues values = normal_values(2);
  const auto codec = make("thc");
  const auto parameters = values.parameters();
  EXPECT_EQ(SimulatedAllReduce::create(*codec, {.topology = Topology::kHierarchical, .ranks = 2},
                                       parameters, values)
                .status()
                .code(),
            ErrorCode::kUnsupported);
  for (const std::uint32_t ranks : {0u, codec->max_ranks() + 1}) {
    EXPECT_EQ(
        SimulatedAllReduce::create(*codec, {.ranks = ranks}, parameters, values).status().code(),
        ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace nf
