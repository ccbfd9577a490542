// The runtime as a whole: what ranks hold after a step, what they decide, and that they decide it
// together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using test::run_steps;
using test::short_options;
using test::short_profile;
using Gradients = FabricRank::Gradients;

// What each rank collected, to be compared once all are done.
template <typename T>
class ByRank {
 public:
  explicit ByRank(std::uint32_t ranks) : values_(ranks) {}
  void set(std::uint32_t rank, T value) {
    const std::lock_guard lock(mutex_);
    values_[rank] = std::move(value);
  }
  void expect_all_equal() const {
    for (const T& value : values_) EXPECT_EQ(value, values_.front());
  }
  const T& first() const { return values_.front(); }

 private:
  std::mutex mutex_;
  std::vector<T> values_;
};

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter};

FabricOptions options_of(Collective collective, const std::string& route,
                         Admit admit = Admit::kSafe) {
  FabricOptions options = short_options(route, admit);
  options.collective = collective;
  return options;
}

class EveryRankCount : public testing::TestWithParam<std::tuple<Collective, std::uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryRankCount,
                         testing::Combine(testing::ValuesIn(kCollectives),
                                          testing::Values(1, 2, 3, 4)));

TEST_P(EveryRankCount, HoldsTheSameBitsAfterEveryStep) {
  const auto [collective, ranks] = GetParam();
  ByRank<std::vector<Gradients>> results(ranks);
  on_all_ranks(ranks, [&, collective = collective](Transport& transport) {
    FabricRank rank(transport, options_of(collective, "waterfill:4"));
    std::vector<Gradients> all;
    for (int i = 0; i < 12; ++i) {
      run_steps(rank, 1);
      all.push_back(rank.gradients());
    }
    results.set(transport.rank(), all);
  });
  results.expect_all_equal();
}

class EveryCollective : public testing::TestWithParam<Collective> {
 protected:
  static FabricOptions options(const std::string& route, Admit admit = Admit::kSafe) {
    return options_of(GetParam(), route, admit);
  }
};
INSTANTIATE_TEST_SUITE_P(Collectives, EveryCollective, testing::ValuesIn(kCollectives),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(EveryCollective, ComputesTheMeanIfEverythingIsDense) {
  std::vector<Gradients> before(2);
  ByRank<Gradients> after(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("fp32"));
    ASSERT_TRUE(rank.run_step([&](Gradients& own) { before[transport.rank()] = own; }).ok());
    after.set(transport.rank(), rank.gradients());
  });
  after.expect_all_equal();
  for (std::size_t i = 0; i < before[0].size(); ++i) {
    for (std::size_t j = 0; j < before[0][i].size(); ++j) {
      EXPECT_EQ(after.first()[i][j], before[0][i][j] * 0.5f + before[1][i][j] * 0.5f);
    }
  }
}

TEST(Fabric, ComputesTheSumIfTheBucketRequestsIt) {
  std::vector<Gradients> before(2);
  ByRank<Gradients> after(2);
  on_all_ranks(2, [&](Transport& transport) {
    test::OwnDenseEngine engine(transport);
    FabricRank rank(
        transport, short_options("fp32"),
        [&](FabricOptions options) {
          return Fabric::create(transport, engine, std::move(options));
        },
        [](Fabric& fabric, Bucket bucket) {
          bucket.reduction = Reduction::kSum;
          return fabric.all_reduce(bucket);
        });
    ASSERT_TRUE(rank.run_step([&](Gradients& own) { before[transport.rank()] = own; }).ok());
    after.set(transport.rank(), rank.gradients());
  });
  after.expect_all_equal();
  for (std::size_t i = 0; i < before[0].size(); ++i) {
    for (std::size_t j = 0; j < before[0][i].size(); ++j) {
      EXPECT_EQ(after.first()[i][j], before[0][i][j] + before[1][i][j]);
    }
  }
}

TEST_P(EveryCollective, KeepsDenseSegmentsOfMixedBucketsExact) {
  std::vector<Gradients> before(2);
  ByRank<Gradients> after(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4", Admit::kForced));
    ASSERT_TRUE(rank.run_step([&](Gradients& own) { before[transport.rank()] = own; }).ok());
    after.set(transport.rank(), rank.gradients());
  });
  after.expect_all_equal();
  for (const std::size_t dense : {2u, 3u, 4u}) {  // the head, and the norm, which is small
    for (std::size_t j = 0; j < before[0][dense].size(); ++j) {
      EXPECT_EQ(after.first()[dense][j], before[0][dense][j] * 0.5f + before[1][dense][j] * 0.5f);
    }
  }
  EXPECT_NE(after.first()[0][0], before[0][0][0] * 0.5f + before[1][0][0] * 0.5f);
}

TEST_P(EveryCollective, WarmsUpThenAdmits) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4"));
    run_steps(rank, 4);
    EXPECT_EQ(rank.decision("backbone"), "fp32 warm_up");
    run_steps(rank, 1);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 admitted");
    EXPECT_EQ(rank.decision("head"), "fp32 admitted");
  });
}

// A breach on one rank that makes all ranks fall back.
struct Trouble {
  std::string reason;
  std::function<void(Fabric&, Gradients&)> make;
};

void PrintTo(const Trouble& trouble, std::ostream* out) { *out << trouble.reason; }

class EveryTrouble : public testing::TestWithParam<std::tuple<Collective, Trouble>> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryTrouble,
    testing::Combine(testing::ValuesIn(kCollectives),
                     testing::Values(Trouble{"non_finite",
                                             [](Fabric&, Gradients& own) {
                                               own[0][7] = std::numeric_limits<float>::quiet_NaN();
                                             }},
                                     Trouble{"non_finite",
                                             [](Fabric&, Gradients& own) {
                                               own[0][7] = std::numeric_limits<float>::infinity();
                                             }},
                                     Trouble{"norm_spike",
                                             [](Fabric&, Gradients& own) {
                                               for (float& value : own[0]) value *= 1e4f;
                                             }},
                                     Trouble{"loss_spike",
                                             [](Fabric& fabric, Gradients&) {
                                               fabric.observe_loss(1e6);
                                             }},
                                     Trouble{"capacity", [](Fabric& fabric, Gradients&) {
                                               fabric.report_capacity_breach();
                                             }})));

TEST_P(EveryTrouble, MakesAllRanksFallBackAtTheSameStepAndRecover) {
  constexpr int kTroubled = 15;
  const auto& [collective, trouble] = GetParam();
  ByRank<std::vector<std::string>> decisions(3);
  on_all_ranks(3, [&, collective = collective, trouble = trouble](Transport& transport) {
    FabricRank rank(transport, options_of(collective, "waterfill:4"));
    std::vector<std::string> all;
    for (int step = 0; step < 30; ++step) {
      const bool is_troubled = step == kTroubled && transport.rank() == 1;
      rank.fabric().observe_loss(1.0);
      const Status status = rank.run_step([&](Gradients& own) {
        if (is_troubled) trouble.make(rank.fabric(), own);
      });
      ASSERT_TRUE(status.ok()) << to_string(status);
      all.push_back(rank.decision("backbone"));
    }
    decisions.set(transport.rank(), all);
  });
  decisions.expect_all_equal();
  const std::vector<std::string>& all = decisions.first();
  const auto fallback = std::size_t{kTroubled + 2};
  EXPECT_EQ(all[fallback - 1], "waterfill:4 admitted");
  EXPECT_EQ(all[fallback], "fp32 " + trouble.reason);
  EXPECT_EQ(all[fallback + 1], "fp32 cool_down");
  EXPECT_EQ(all[fallback + 3], "waterfill:4 probation");
  EXPECT_EQ(all[fallback + 6], "waterfill:4 admitted");
}

TEST_P(EveryCollective, ReturnsTheSameShouldStepOnEveryRank) {
  on_all_ranks(3, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4", Admit::kForced));
    run_steps(rank, 2);
    EXPECT_EQ(rank.fabric().should_step(), true);
    const Status status = rank.run_step([&](Gradients& own) {
      if (transport.rank() == 2) own[1][0] = std::numeric_limits<float>::quiet_NaN();
    });
    EXPECT_TRUE(status.ok()) << to_string(status);
    EXPECT_EQ(rank.fabric().should_step(), false);
    run_steps(rank, 1);
    EXPECT_EQ(rank.fabric().should_step(), true);
  });
}

TEST_P(EveryCollective, DoesNotCheckGradientsWithoutLowBits) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("fp32", Admit::kForced));
    run_steps(rank, 2);
    EXPECT_EQ(rank.fabric().should_step(), std::nullopt);
  });
}

TEST_P(EveryCollective, FallsBackIfTheErrorOfARouteIsTooLarge) {
  ByRank<std::vector<std::string>> decisions(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = options("g_binary");
    own.profile.health.error_budget = 0.5;
    FabricRank rank(transport, own);
    std::vector<std::string> all;
    for (int step = 0; step < 12; ++step) {
      const Status status = rank.run_step([&](Gradients& gradients) {
        if (step < 6 || transport.rank() != 1) return;
        // Few large values among many small ones: signs and a scale do not represent them.
        for (std::size_t i = 0; i < gradients[0].size(); ++i) {
          gradients[0][i] *= i % 100 == 0 ? 9.0f : 0.01f;
        }
      });
      ASSERT_TRUE(status.ok()) << to_string(status);
      all.push_back(rank.decision("backbone"));
    }
    decisions.set(transport.rank(), all);
  });
  decisions.expect_all_equal();
  EXPECT_THAT(decisions.first(), testing::Contains("g_binary admitted"));
  EXPECT_THAT(decisions.first(), testing::Contains("fp32 error_budget"));
}

TEST_P(EveryCollective, FallsBackIfABucketExceedsTheQueueOfAReducer) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = options("waterfill:4");
    own.profile.reducer.queue_lines = 1;
    FabricRank rank(transport, own);
    std::vector<std::string> all;
    for (int step = 0; step < 12; ++step) {
      const Status status = rank.run_step([](Gradients&) {});
      ASSERT_TRUE(status.ok()) << to_string(status);
      all.push_back(rank.decision("backbone"));
    }
    EXPECT_THAT(all, testing::Contains("waterfill:4 admitted"));
    EXPECT_THAT(all, testing::Contains("fp32 capacity"));
  });
}

TEST_P(EveryCollective, LocksOutAfterTooManyFallbacks) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4"));
    for (int step = 0; step < 60; ++step) {
      const Status status = rank.run_step([&](Gradients& own) {
        if (transport.rank() == 0 && step % 8 == 5) {
          own[0][0] = std::numeric_limits<float>::quiet_NaN();
        }
      });
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    EXPECT_EQ(rank.decision("backbone"), "fp32 locked_out");
  });
}

TEST_P(EveryCollective, ChangesRoutesAtTheStepOfAPhase) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = options("waterfill:4");
    own.profile.phases.push_back(
        {.from_step = 8, .routes = {{"head", "fp32"}, {"backbone", "g_ternary"}}});
    own.profile.health.error_budget = 0.9;
    FabricRank rank(transport, own);
    run_steps(rank, 8);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 admitted");
    run_steps(rank, 1);
    EXPECT_EQ(rank.decision("backbone"), "g_ternary admitted");
  });
}

TEST_P(EveryCollective, OnlyMonitorsInShadowMode) {
  ByRank<Gradients> shadow(2);
  ByRank<Gradients> dense(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = options("waterfill:4");
    own.mode = Mode::kShadow;
    FabricRank rank(transport, own);
    run_steps(rank, 8);
    EXPECT_EQ(rank.decision("backbone"), "fp32 admitted");
    const auto last = nlohmann::json::parse(rank.records().back());
    EXPECT_GT(last["shadow_bytes"].get<double>(), 0);
    EXPECT_GT(last["regions"][1]["error"].get<double>(), 0);
    EXPECT_LT(last["shadow_bytes"].get<double>(), last["regions"][1]["dense_bytes"].get<double>());
    shadow.set(transport.rank(), rank.gradients());
  });
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("fp32"));
    run_steps(rank, 8);
    dense.set(transport.rank(), rank.gradients());
  });
  EXPECT_EQ(shadow.first(), dense.first());
}

TEST_P(EveryCollective, IsPermanentlyDenseAfterDetach) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4", Admit::kForced));
    run_steps(rank, 2);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 forced");
    rank.fabric().detach();
    run_steps(rank, 3);
    EXPECT_EQ(rank.decision("backbone"), "fp32 forced");
  });
}

TEST_P(EveryCollective, UsesLowBitsIfTheLinkIsSlow) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = options("waterfill:4", Admit::kUseful);
    own.link_gbps = 1e-4;
    FabricRank rank(transport, own);
    run_steps(rank, 8);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 admitted");
  });
}

TEST_P(EveryCollective, RejectsBucketsOutOfOrder) {
  on_all_ranks(1, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4"));
    std::vector<float> values(10);
    const Status status = rank.fabric().all_reduce(
        {.index = 1, .is_last = true, .values = Values(values), .slots = {}});
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("bucket 1 of step 0"));
  });
}

TEST_P(EveryCollective, RejectsAStateOfAnotherJob) {
  on_all_ranks(1, [&](Transport& transport) {
    FabricRank rank(transport, options("waterfill:4"));
    EXPECT_EQ(rank.fabric().load_state("{}").code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(rank.fabric().load_state("nonsense").code(), ErrorCode::kInvalidArgument);
    run_steps(rank, 1);
  });
}

}  // namespace
}  // namespace nf
