// The residuals of a reduce-scatter between calls.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "support/generator.h"
#include "support/shards.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Shards;
using test::ShardViews;

constexpr std::uint32_t kRanks = 4;
constexpr Topology kTopologies[] = {Topology::kDirect, Topology::kRing, Topology::kHierarchical};

AllReduceOptions options_of(Topology topology, const std::string& codec = "waterfill:2+ef") {
  return {.codec = codec,
          .topology = topology,
          .host_group_size = topology == Topology::kHierarchical ? 2u : 0u};
}

// Shards of 1024 and fewer values. Some super-groups are small, so that a small budget drops them.
Shards values_of(std::uint32_t rank, float quiet = 0.03f) {
  test::Generator random(rank + 1);
  Shards shards;
  for (std::uint32_t shard = 0; shard < kRanks; ++shard) {
    std::vector<float> values = random.normal(1024 - 100 * shard);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i / 256 % 4 == 0 ? 1.0f : quiet;
    shards.push_back({values});
  }
  return shards;
}

std::vector<float> exact_sum(std::uint32_t shard, float quiet) {
  std::vector<float> sum(values_of(0)[shard].front().size(), 0.0f);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const Shards values = values_of(rank, quiet);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[shard].front()[i];
  }
  return sum;
}

// The values of one call on this rank.
Shards run(ReduceScatter& sum, std::uint64_t step, Shards values) {
  const Status status = sum.run({.step = step, .shards = ShardViews(values).shards()});
  EXPECT_TRUE(status.ok()) << to_string(status);
  return values;
}

// The relative squared error of the mean of all shards over `steps` calls with the same values.
double error_of_mean(const AllReduceOptions& options, int steps, float quiet) {
  std::vector<double> errors(kRanks);
  std::vector<double> norms(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    const std::uint32_t rank = transport.rank();
    const auto sum = ReduceScatter::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    const std::vector<float> exact = exact_sum(rank, quiet);
    std::vector<double> mean(exact.size(), 0);
    for (int step = 0; step < steps; ++step) {
      const Shards result = run(**sum, static_cast<std::uint64_t>(step), values_of(rank, quiet));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += double{result[rank][0][i]} / steps;
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      errors[rank] += std::pow(mean[i] - double{exact[i]}, 2);
      norms[rank] += std::pow(double{exact[i]}, 2);
    }
  });
  double error = 0;
  double norm = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    error += errors[rank];
    norm += norms[rank];
  }
  return error / norm;
}

// Without feedback the squared error of a mean over T calls falls as 1/T, with it as 1/T^2.
TEST(ReduceScatterFeedback, CompensatesEncodingErrors) {
  for (const Topology topology : kTopologies) {
    const AllReduceOptions options = options_of(topology);
    EXPECT_LT(error_of_mean(options, 400, 0.03f), error_of_mean(options, 50, 0.03f) / 16)
        << to_string(topology);
  }
}

TEST(ReduceScatterFeedback, CompensatesMergingAndCountingCodecs) {
  for (const char* codec : {"marsit+ef", "g_binary+ef", "g_ternary+ef"}) {
    for (const Topology topology : kTopologies) {
      const AllReduceOptions options = options_of(topology, codec);
      EXPECT_LT(error_of_mean(options, 100, 1), error_of_mean(options, 1, 1) / 10)
          << codec << " over " << to_string(topology);
    }
  }
}

// The own shard of rank 0 in the last of three calls, with `between` after the second.
template <typename Between>
std::vector<float> result_of(Topology topology, Between between) {
  std::vector<float> result;
  on_all_ranks(kRanks, [&](Transport& transport) {
    auto sum = std::move(*ReduceScatter::create(transport, options_of(topology)));
    const std::uint32_t rank = transport.rank();
    run(*sum, 0, values_of(rank));
    between(transport, sum);
    const Shards last = run(*sum, 2, values_of(rank));
    if (rank == 0) result = last[0].front();
  });
  return result;
}

using Sum = std::unique_ptr<ReduceScatter>;

TEST(ReduceScatterFeedback, IsUnchangedByANonFiniteStep) {
  for (const Topology topology : kTopologies) {
    const auto skipped = result_of(topology, [](Transport&, Sum&) {});
    const auto failed = result_of(topology, [](Transport& transport, Sum& sum) {
      Shards values = values_of(transport.rank());
      for (auto& shard : values) shard.front()[77] = std::numeric_limits<float>::infinity();
      EXPECT_FALSE(std::isfinite(run(*sum, 1, values)[transport.rank()].front()[77]));
    });
    EXPECT_EQ(failed, skipped) << to_string(topology);
  }
}

// One rank has one Inf. Only some of the ranks can know, so the caller must undo the step.
TEST(ReduceScatterFeedback, IsRestoredByUndo) {
  for (const Topology topology : kTopologies) {
    const auto skipped = result_of(topology, [](Transport&, Sum&) {});
    const auto undone = result_of(topology, [](Transport& transport, Sum& sum) {
      Shards values = values_of(transport.rank());
      if (transport.rank() == 3) values[2].front()[5] = std::numeric_limits<float>::infinity();
      run(*sum, 1, values);
      sum->undo(parameter_key("p0"));
    });
    EXPECT_EQ(undone, skipped) << to_string(topology);
    const auto kept = result_of(topology, [](Transport& transport, Sum& sum) {
      run(*sum, 1, values_of(transport.rank()));
    });
    EXPECT_NE(kept, skipped) << to_string(topology);
  }
}

TEST(ReduceScatterFeedback, ContinuesWithLoadedMemory) {
  for (const Topology topology : kTopologies) {
    const auto same = result_of(topology, [](Transport&, Sum&) {});
    const auto loaded = result_of(topology, [&](Transport& transport, Sum& sum) {
      const std::vector<MemoryEntry> memory = sum->save_memory();
      EXPECT_EQ(memory.size(), kRanks);
      for (const MemoryEntry& entry : memory) {
        for (const float value : entry.values) ASSERT_TRUE(std::isfinite(value));
      }
      sum = std::move(*ReduceScatter::create(transport, options_of(topology)));
      EXPECT_TRUE(sum->load_memory(memory).ok());
    });
    EXPECT_EQ(loaded, same) << to_string(topology);
    const auto forgotten = result_of(topology, [](Transport&, Sum& sum) {
      sum->forget(parameter_key("p0"));
      EXPECT_TRUE(sum->save_memory().empty());
    });
    const auto reset = result_of(topology, [](Transport&, Sum& sum) { sum->reset(); });
    EXPECT_EQ(forgotten, reset) << to_string(topology);
    EXPECT_NE(forgotten, same) << to_string(topology);
  }
}

// Over direct, a rank encodes every shard but its own.
TEST(ReduceScatterFeedback, HasNoErrorInTheOwnShard) {
  for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
    on_all_ranks(kRanks, [topology](Transport& transport) {
      const auto sum = ReduceScatter::create(transport, options_of(topology));
      run(**sum, 0, values_of(transport.rank()));
      for (const MemoryEntry& entry : (*sum)->save_memory()) {
        const bool is_own = entry.parameter == shard_key(parameter_key("p0"), transport.rank());
        double energy = 0;
        for (const float value : entry.values) energy += std::pow(double{value}, 2);
        EXPECT_EQ(energy == 0, is_own);
      }
    });
  }
}

}  // namespace
}  // namespace nf
