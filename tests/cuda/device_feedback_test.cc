// Error feedback in device memory: at every step the same bits and the same residuals as on the
// CPU.
#include "cuda/collective/device_feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cuda/collective/device_all_reduce.h"
#include "cuda/device_test.h"
#include "cuda/route_job.h"
#include "support/spellings.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

using testing::HasSubstr;
using Job = RouteJob;
using Outcome = RouteOutcome;

std::vector<std::string> routes() {
  return codec_spellings([](const Codec& codec) { return codec.keeps_residual(); });
}

// Every parameter has a residual.
void expect_matches_cpu(const Job& job) { test::expect_same_as_cpu(job, job.shapes.size()); }

class DeviceFeedback : public OnDevice<> {};

TEST_F(DeviceFeedback, MatchesTheCpu) {
  for (const std::string& route : routes()) {
    for (const DataType type : kAllTypes) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_matches_cpu({.codec = route, .ranks = 3, .type = type});
      expect_matches_cpu({.codec = route, .ranks = 4, .type = type, .topology = Topology::kTree});
    }
  }
}

// More parameters than fit in a launch, and more values than one pass of its grid.
TEST_F(DeviceFeedback, MatchesTheCpuForManyAndForLargeParameters) {
  for (const std::string& route : routes()) {
    SCOPED_TRACE(route);
    std::vector<Job::Shape> shapes;
    for (std::size_t i = 0; i < 150; ++i) shapes.push_back({0, i % 7 == 0 ? 0 : 37 * i});
    expect_matches_cpu({.codec = route, .shapes = shapes, .loss_scales = {1, 1}});
    expect_matches_cpu({.codec = route, .shapes = {{0, 6'000'001}, {0, 5}}, .loss_scales = {1, 1}});
  }
}

// The calls of a step share the buffer for their values, which grows at the second call.
TEST_F(DeviceFeedback, MatchesTheCpuForSeveralCallsPerStep) {
  for (const std::string& route : routes()) {
    SCOPED_TRACE(route);
    expect_matches_cpu({.codec = route, .type = DataType::kBfloat16, .calls = 2});
    expect_matches_cpu({.codec = route, .calls = 5});
  }
}

TEST_F(DeviceFeedback, StoresResidualsWithoutTheLossScale) {
  for (const std::string& route : routes()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_matches_cpu(
          {.codec = route, .type = type, .loss_scales = {1024, 1024, 3, 0.125f, 65536}});
    }
  }
}

// A parameter that is zero on all ranks, and another that is zero on one: the residual is not added
// to the zeros, and does not change.
TEST_F(DeviceFeedback, KeepsTheResidualOfZeroGradients) {
  for (const std::string& route : routes()) {
    for (const DataType type : kAllTypes) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_matches_cpu({.codec = route,
                          .ranks = 3,
                          .type = type,
                          .spoil = [](std::size_t step, std::uint32_t rank, Parameters& own) {
                            if (step != 1) return;
                            std::ranges::fill(own[4], rank == 0 ? 0.0f : -0.0f);
                            if (rank == 1) std::ranges::fill(own[9], 0.0f);
                          }});
    }
  }
}

TEST_F(DeviceFeedback, KeepsOldResidualsIfASumIsNotFinite) {
  for (const std::string& route : routes()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      SCOPED_TRACE(testing::Message() << route << " " << bad);
      Job job{.codec = route,
              .ranks = 3,
              .loss_scales = {1, 1, 1, 1},
              .spoil = [&](std::size_t step, std::uint32_t rank, Parameters& own) {
                if (step == 2 && rank == 1) own[3][2'499] = bad;
              }};
      const Outcome expected = on_cpu(job);
      EXPECT_TRUE(std::isnan(expected.values[2][0][3][2'499]));
      EXPECT_TRUE(std::isfinite(expected.values[3][0][3][2'499]));
      expect_same(job, on_device(job), expected);
      job.loss_scales = {1, 1, 1};
      const Outcome with_nan = on_device(job);
      job.loss_scales = {1, 1};
      EXPECT_EQ(with_nan.memory, on_cpu(job).memory);
    }
  }
}

// Sums that overflow the type, of values that do not.
TEST_F(DeviceFeedback, KeepsOldResidualsIfASumOverflows) {
  for (const std::string& route : routes()) {
    for (const DataType type : kAllTypes) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      const float huge = type == DataType::kFloat16 ? 6e4f : 3e38f;
      Job job{.codec = route,
              .type = type,
              .spoil = [=](std::size_t step, std::uint32_t, Parameters& own) {
                if (step == 2) std::fill(own[3].begin(), own[3].end(), huge);
              }};
      const Outcome expected = on_cpu(job);
      EXPECT_FALSE(std::isfinite(expected.values[2][0][3][0]));
      const Outcome got = on_device(job);
      expect_same(job, got, expected);
      job.loss_scales.pop_back();
      EXPECT_EQ(got.memory, on_cpu(job).memory);
    }
  }
}

TEST_F(DeviceFeedback, ChannelsShareResiduals) {
  for (const std::string& route : routes()) {
    SCOPED_TRACE(route);
    const Job job{.codec = route, .loss_scales = {1, 1, 1, 1, 1}};
    expect_same(job, on_device(job, 2), on_cpu(job));
  }
}

TEST_F(DeviceFeedback, ResumesFromCpuResidualsAndBack) {
  for (const std::string& route : routes()) {
    SCOPED_TRACE(route);
    const Job job{.codec = route, .loss_scales = {1, 1, 8, 8}};
    const Outcome expected = on_cpu(job);
    Job begun = job;
    begun.loss_scales.resize(2);
    expect_same(job, on_device(job, 1, 2, on_cpu(begun).memory), expected, 2);
    expect_same(job, on_cpu(job, 2, on_device(begun).memory), expected, 2);
  }
}

TEST_F(DeviceFeedback, RejectsOtherSizes) {
  const Job job{.codec = "waterfill:3+ef", .shapes = {{0, 600}}};
  const auto inputs = job.values();
  on_device_ranks(2, 1, [&](std::uint32_t rank, const auto& transports) {
    RouteRank own(job, transports);
    Parameters summed;
    expect_ok(own.run(0, inputs[0][rank], summed), "the first step");
    const auto run = [&](std::size_t count, float loss_scale) {
      own.gradients()[0].values.count = count;
      return own.sum().enqueue({.gradients = own.gradients(), .loss_scale = loss_scale},
                               own.stream());
    };
    EXPECT_THAT(run(599, 1).message(), HasSubstr("call forget() first"));
    EXPECT_EQ(run(600, 0).code(), ErrorCode::kInvalidArgument);
    auto saved = own.memory().save_memory();
    ASSERT_TRUE(saved);
    ASSERT_EQ(saved->size(), 1u);
    EXPECT_EQ((*saved)[0].kind, "residual");
    (*saved)[0].values.pop_back();
    EXPECT_EQ(own.memory().load_memory(*saved).code(), ErrorCode::kInvalidArgument);
    (*saved)[0].kind = "basis";
    EXPECT_THAT(own.memory().load_memory(*saved).message(), HasSubstr("residual"));
    own.memory().forget(Job::key(0));
    saved = own.memory().save_memory();
    ASSERT_TRUE(saved);
    EXPECT_TRUE(saved->empty());
    EXPECT_GT(own.memory().size(), 0u);
    expect_ok(run(599, 1), "another size");
    own.sum().forget(Job::key(0));
    EXPECT_EQ(own.memory().size(), 0u);
  });
}

TEST_F(DeviceFeedback, RestartsAForgottenParameter) {
  expect_restart_after_forget(
      {.codec = "g_ternary+ef", .shapes = {{0, 3'000}}, .loss_scales = {1, 1}});
}

}  // namespace
}  // namespace nf::test
