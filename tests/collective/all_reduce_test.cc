// Every codec with every topology: all ranks hold the same bits, and the sum is correct.
#include "neuron_fabric/all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "support/codec_cases.h"
#include "support/normal.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::all_reduce;
using test::Parameters;

struct Case {
  std::string codec;
  Topology topology;
  std::uint32_t host_group_size = 0;
};

// Multiples of 1/8 from -1 to 1: small sums are exact in every 16-bit type.
Parameters exact_values(std::uint32_t rank, const std::vector<std::size_t>& counts) {
  std::mt19937 random(rank + 1);
  Parameters parameters;
  for (const std::size_t count : counts) {
    std::vector<float>& values = parameters.emplace_back(count);
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
  }
  return parameters;
}

Parameters normal_values(std::uint32_t rank, const std::vector<std::size_t>& counts) {
  std::mt19937 random(rank + 100);
  test::Normal normal;
  Parameters parameters;
  for (const std::size_t count : counts) {
    std::vector<float>& values = parameters.emplace_back(count);
    for (float& value : values) value = normal(random);
  }
  return parameters;
}

template <typename Make>
std::vector<Parameters> of_all_ranks(std::uint32_t ranks, const std::vector<std::size_t>& counts,
                                     Make make) {
  std::vector<Parameters> by_rank;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) by_rank.push_back(make(rank, counts));
  return by_rank;
}

Parameters sum_of(const std::vector<Parameters>& by_rank) {
  Parameters sum = by_rank.front();
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    for (std::size_t p = 0; p < sum.size(); ++p) {
      for (std::size_t i = 0; i < sum[p].size(); ++i) sum[p][i] += by_rank[rank][p][i];
    }
  }
  return sum;
}

bool same_bits(const Parameters& a, const Parameters& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t p = 0; p < a.size(); ++p) {
    if (a[p].size() != b[p].size()) return false;
    if (!a[p].empty() && std::memcmp(a[p].data(), b[p].data(), 4 * a[p].size()) != 0) return false;
  }
  return true;
}

double error_of(const Parameters& result, const Parameters& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t p = 0; p < exact.size(); ++p) {
    for (std::size_t i = 0; i < exact[p].size(); ++i) {
      error += std::pow(double{result[p][i]} - double{exact[p][i]}, 2);
      norm += std::pow(double{exact[p][i]}, 2);
    }
  }
  return norm == 0 ? error : error / norm;
}

const std::vector<std::size_t> kSizes = {3000, 0, 1, 257, 5121, 700};

class EveryTopology : public testing::TestWithParam<Case> {
 protected:
  AllReduceOptions options() const {
    return {.codec = GetParam().codec,
            .topology = GetParam().topology,
            .host_group_size = GetParam().host_group_size,
            .seed = 11,
            .tile_bytes = 700};
  }
  bool fits(std::uint32_t ranks) const {
    return GetParam().topology != Topology::kHierarchical ||
           ranks % GetParam().host_group_size == 0;
  }
};

TEST_P(EveryTopology, IsBitIdenticalOnAllRanksAndReproducible) {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 4u, 5u, 8u, 17u}) {
    if (!fits(ranks)) continue;
    SCOPED_TRACE(ranks);
    const auto values = of_all_ranks(ranks, kSizes, normal_values);
    const std::vector<Parameters> results = all_reduce(options(), values);
    for (const Parameters& result : results) EXPECT_TRUE(same_bits(result, results.front()));
    EXPECT_TRUE(same_bits(all_reduce(options(), values).front(), results.front()));
    if (ranks == 1) {
      EXPECT_TRUE(same_bits(results.front(), values.front()));
    }
  }
}

TEST_P(EveryTopology, AcceptsEmptyAndTinyTensors) {
  const std::vector<std::vector<std::size_t>> sizes = {{}, {0}, {1}, {0, 0, 2}, {1, 1, 1}, {31}};
  for (const auto& counts : sizes) {
    for (const std::uint32_t ranks : {2u, 4u, 6u}) {
      const auto values = of_all_ranks(ranks, counts, exact_values);
      const std::vector<Parameters> results = all_reduce(options(), values);
      for (const Parameters& result : results) {
        EXPECT_TRUE(same_bits(result, results.front()));
        for (const auto& parameter : result) {
          for (const float value : parameter) EXPECT_TRUE(std::isfinite(value));
        }
      }
    }
  }
}

std::vector<Case> every_topology(const std::vector<std::string>& codecs) {
  std::vector<Case> cases;
  for (const std::string& codec : codecs) {
    for (const Topology topology : all_topologies()) {
      cases.push_back({codec, topology, topology == Topology::kHierarchical ? 2u : 0u});
    }
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

INSTANTIATE_TEST_SUITE_P(Codecs, EveryTopology, testing::ValuesIn(every_topology(every_codec())),
                         case_name);

using DenseSum = EveryTopology;

TEST_P(DenseSum, IsExactIfTheTypeCanRepresentIt) {
  for (std::uint32_t ranks = 1; ranks <= 17; ++ranks) {
    if (!fits(ranks)) continue;
    const auto values = of_all_ranks(ranks, kSizes, exact_values);
    for (const Parameters& result : all_reduce(options(), values)) {
      EXPECT_TRUE(same_bits(result, sum_of(values))) << ranks;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, DenseSum,
    testing::ValuesIn(every_topology(test::codec_spellings([](const Codec& codec) {
      return codec.kind() == CodecKind::kDense;
    }))),
    case_name);

// The maximum error of a chain of eight for normal values at these widths, from docs/codecs.
struct Bound {
  std::string codec;
  double error;
};

TEST(AllReduce, StaysWithinTheErrorOfItsCodecInEveryTopology) {
  const std::vector<std::size_t> sizes = {20000, 33, 9000};
  const auto values = of_all_ranks(8, sizes, normal_values);
  const Parameters exact = sum_of(values);
  for (const auto& [codec, bound] :
       {Bound{"waterfill:5", 0.03}, {"dynamiq:5", 0.06}, {"mxfp8", 0.01}, {"thc", 0.1}}) {
    for (const Topology topology : all_topologies()) {
      const std::vector<Parameters> results = all_reduce(
          {.codec = codec, .topology = topology, .host_group_size = 2, .tile_bytes = 3000}, values);
      EXPECT_LT(error_of(results.front(), exact), bound) << codec << " " << to_string(topology);
    }
  }
}

}  // namespace
}  // namespace nf
