// Errors of a Fabric, and that all later calls fail with the first one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;

// Calls work(fabric, values) on a single rank, with a bucket buffer of 10 values, all 1.
void alone(const std::function<void(Fabric&, std::vector<float>&)>& work) {
  on_all_ranks(1, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("waterfill:4", Admit::kForced));
    std::vector<float> values(10, 1.0f);
    work(rank.fabric(), values);
    EXPECT_THAT(values, testing::Each(1.0f));
  });
}

// The head's bias, which has 10 values.
constexpr std::uint32_t kBias = 4;

TEST(FabricFailure, RejectsABucketThatSkipsOthers) {
  alone([](Fabric& fabric, std::vector<float>& values) {
    const std::vector<BucketSlot> slots = {{.parameter = kBias, .offset = 0, .count = 10}};
    ASSERT_TRUE(fabric.all_reduce({.index = 0, .values = Values(values), .slots = slots}).ok());
    const Status status = fabric.all_reduce(
        {.index = 100'000, .is_last = true, .values = Values(values), .slots = slots});
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("bucket 100000 of step 0"));
    EXPECT_THAT(status.message(), testing::HasSubstr("expected bucket 1"));
    EXPECT_EQ(fabric.step(), 0u);
  });
}

TEST(FabricFailure, RejectsADuplicateBucket) {
  alone([](Fabric& fabric, std::vector<float>& values) {
    const Bucket bucket{.index = 0, .values = Values(values), .slots = {}};
    ASSERT_TRUE(fabric.all_reduce(bucket).ok());
    EXPECT_EQ(fabric.all_reduce(bucket).code(), ErrorCode::kInvalidArgument);
  });
}

struct BadSlot {
  BucketSlot slot;
  std::string words;
};

void PrintTo(const BadSlot& bad, std::ostream* out) { *out << bad.words; }

constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();

class EveryBadSlot : public testing::TestWithParam<BadSlot> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryBadSlot,
    testing::Values(BadSlot{{.parameter = 5, .offset = 0, .count = 1},
                            "parameter 5, but the model has 5"},
                    BadSlot{{.parameter = 1'000'000, .offset = 0, .count = 0},
                            "parameter 1000000, but the model has 5"},
                    BadSlot{{.parameter = kBias, .offset = 1, .count = 10},
                            "10 values from value 1 on, but the bucket has 10"},
                    BadSlot{{.parameter = kBias, .offset = 11, .count = 0},
                            "0 values from value 11 on, but the bucket has 10"},
                    BadSlot{{.parameter = 0, .offset = 0, .count = 1000},
                            "1000 values from value 0 on, but the bucket has 10"},
                    BadSlot{{.parameter = kBias, .offset = 5, .count = kLargest - 2},
                            "from value 5 on, but the bucket has 10"}));

TEST_P(EveryBadSlot, IsRejectedBeforeAnythingChanges) {
  alone([](Fabric& fabric, std::vector<float>& values) {
    const std::vector<BucketSlot> slots = {{.parameter = kBias, .offset = 0, .count = 10},
                                           GetParam().slot};
    const Status status =
        fabric.all_reduce({.index = 0, .is_last = true, .values = Values(values), .slots = slots});
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("bucket 0 of step 0"));
    EXPECT_THAT(status.message(), testing::HasSubstr(GetParam().words));
    EXPECT_EQ(fabric.step(), 0u);
  });
}

TEST(FabricFailure, RejectsMoreValuesThanTheParameterHas) {
  on_all_ranks(1, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("waterfill:4", Admit::kForced));
    std::vector<float> values(11, 1.0f);
    const Status status =
        rank.fabric().all_reduce({.index = 0,
                                  .is_last = true,
                                  .values = Values(values),
                                  .slots = {{.parameter = kBias, .offset = 0, .count = 11}}});
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                testing::HasSubstr("11 values of parameter head.bias, which has 10"));
  });
}

TEST(FabricFailure, RejectsRowsThatAreNotThoseOfAReduceScatter) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions options = test::short_options("waterfill:4");
    options.collective = Collective::kReduceScatter;
    FabricRank rank(transport, options);
    std::vector<float> values(11, 1.0f);
    Bucket bucket{.index = 0, .is_last = true, .values = Values(values)};
    Status status = rank.fabric().all_reduce(bucket);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("11 values, which are not 2 equal rows"));
  });
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions options = test::short_options("waterfill:4");
    options.collective = Collective::kReduceScatter;
    FabricRank rank(transport, options);
    std::vector<float> values(12, 1.0f);
    const Status status =
        rank.fabric().all_reduce({.index = 0,
                                  .is_last = true,
                                  .values = Values(values),
                                  .slots = {{.parameter = kBias, .offset = 2, .count = 10}}});
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                testing::HasSubstr("10 values from value 2 on, which are in two rows of 6"));
  });
}

TEST(FabricFailure, RejectsATopologyWithoutReduceScatter) {
  on_all_ranks(2, [&](Transport& transport) {
    test::OwnDenseEngine engine(transport);
    FabricOptions options = test::short_options("waterfill:4");
    options.collective = Collective::kReduceScatter;
    options.topology = Topology::kTree;
    options.parameters = test::small_model();
    const auto made = Fabric::create(transport, engine, options);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.status().message(), testing::HasSubstr("does not support topology 'tree'"));
  });
}

// Fails on request.
class FailingSum final : public DenseEngine {
 public:
  Status sum(Values) override {
    return is_failing ? Status(ErrorCode::kPeerLost, "the engine is gone") : Status();
  }
  bool is_failing = false;
};

TEST(FabricFailure, FailsAfterTheEngineFailed) {
  on_all_ranks(1, [&](Transport& transport) {
    FailingSum engine;
    FabricOptions own = test::short_options("waterfill:4", Admit::kForced);
    own.parameters = test::small_model();
    const auto fabric = Fabric::create(transport, engine, own);
    ASSERT_TRUE(fabric) << to_string(fabric.status());
    std::vector<float> values(10, 1.0f);
    const Bucket bucket{.index = 0,
                        .is_last = true,
                        .values = Values(values),
                        .slots = {{.parameter = kBias, .offset = 0, .count = 10}}};
    ASSERT_TRUE((*fabric)->all_reduce(bucket).ok());
    engine.is_failing = true;
    EXPECT_EQ((*fabric)->all_reduce(bucket).message(), "the engine is gone");
    engine.is_failing = false;
    EXPECT_EQ((*fabric)->all_reduce(bucket).message(), "the engine is gone");
    EXPECT_EQ((*fabric)->end_step().message(), "the engine is gone");
    EXPECT_EQ((*fabric)->should_step(), false);
  });
}

}  // namespace
}  // namespace nf
