// Error feedback in device memory gives, step after step, the bits that it gives on the CPU, and
// keeps the same.
#include "cuda/collective/device_feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cuda/collective/device_all_reduce.h"
#include "cuda/device_copy.h"
#include "cuda/route_job.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::expect_ok;
using test::expect_same;
using test::has_device;
using test::on_cpu;
using test::on_device;
using test::on_device_ranks;
using test::Parameters;
using test::RouteRank;
using testing::HasSubstr;
using Job = test::RouteJob;
using Outcome = test::RouteOutcome;

const std::vector<std::string> kRoutes = {"waterfill:2+ef", "g_binary+ef", "g_ternary+ef",
                                          "marsit+ef"};

void expect_same(const Job& job) {
  const Outcome expected = on_cpu(job);
  EXPECT_EQ(expected.memory[0].size(), job.shapes.size());
  expect_same(job, on_device(job), expected);
}

class DeviceFeedback : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device on this machine";
  }
};

TEST_F(DeviceFeedback, KeepsWhatTheCpuKeeps) {
  for (const std::string& route : kRoutes) {
    for (const DataType type : test::kAllTypes) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_same({.codec = route, .ranks = 3, .type = type});
      expect_same({.codec = route, .ranks = 4, .type = type, .topology = Topology::kTree});
    }
  }
}

// More parameters than a launch takes, and more values than its thread blocks take at once.
TEST_F(DeviceFeedback, KeepsItOfManyAndOfLargeParameters) {
  for (const std::string& route : kRoutes) {
    SCOPED_TRACE(route);
    std::vector<Job::Shape> shapes;
    for (std::size_t i = 0; i < 150; ++i) shapes.push_back({0, i % 7 == 0 ? 0 : 37 * i});
    expect_same({.codec = route, .shapes = shapes, .loss_scales = {1, 1}});
    expect_same({.codec = route, .shapes = {{0, 6'000'001}, {0, 5}}, .loss_scales = {1, 1}});
  }
}

// The calls of a step share the room for their values, which the second finds too small.
TEST_F(DeviceFeedback, KeepsItOfOneCallAfterTheOther) {
  for (const std::string& route : kRoutes) {
    SCOPED_TRACE(route);
    expect_same({.codec = route, .type = DataType::kBfloat16, .calls = 2});
    expect_same({.codec = route, .calls = 5});
  }
}

TEST_F(DeviceFeedback, KeepsItWithoutTheLossScale) {
  for (const std::string& route : kRoutes) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_same({.codec = route, .type = type, .loss_scales = {1024, 1024, 3, 0.125f, 65536}});
    }
  }
}

// A parameter with zeros on all ranks, and another with zeros on one: what is kept of it is not
// added to the zeros, and stays.
TEST_F(DeviceFeedback, KeepsItOfParametersThatAreZero) {
  for (const std::string& route : kRoutes) {
    for (const DataType type : test::kAllTypes) {
      SCOPED_TRACE(testing::Message() << route << " " << to_string(type));
      expect_same({.codec = route,
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

TEST_F(DeviceFeedback, KeepsWhatWasWhereASumIsNotFinite) {
  for (const std::string& route : kRoutes) {
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
      const Outcome spoilt = on_device(job);
      job.loss_scales = {1, 1};
      EXPECT_EQ(spoilt.memory, on_cpu(job).memory);
    }
  }
}

// Sums that the type does not hold, from values that it holds.
TEST_F(DeviceFeedback, KeepsWhatWasWhereASumDoesNotFitItsType) {
  for (const std::string& route : kRoutes) {
    for (const DataType type : test::kAllTypes) {
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

TEST_F(DeviceFeedback, LanesShareWhatIsKept) {
  for (const std::string& route : kRoutes) {
    SCOPED_TRACE(route);
    const Job job{.codec = route, .loss_scales = {1, 1, 1, 1, 1}};
    expect_same(job, on_device(job, 2), on_cpu(job));
  }
}

TEST_F(DeviceFeedback, GoesOnFromWhatTheCpuKeptAndBack) {
  for (const std::string& route : kRoutes) {
    SCOPED_TRACE(route);
    const Job job{.codec = route, .loss_scales = {1, 1, 8, 8}};
    const Outcome expected = on_cpu(job);
    Job begun = job;
    begun.loss_scales.resize(2);
    expect_same(job, on_device(job, 1, 2, on_cpu(begun).memory), expected, 2);
    expect_same(job, on_cpu(job, 2, on_device(begun).memory), expected, 2);
  }
}

TEST_F(DeviceFeedback, SaysWhatDoesNotFit) {
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
    auto remembered = own.memory().save_memory();
    ASSERT_TRUE(remembered);
    ASSERT_EQ(remembered->size(), 1u);
    EXPECT_EQ((*remembered)[0].kind, "residual");
    (*remembered)[0].values.pop_back();
    EXPECT_EQ(own.memory().load_memory(*remembered).code(), ErrorCode::kInvalidArgument);
    (*remembered)[0].kind = "basis";
    EXPECT_THAT(own.memory().load_memory(*remembered).message(), HasSubstr("residual"));
    own.memory().forget(Job::key(0));
    remembered = own.memory().save_memory();
    ASSERT_TRUE(remembered);
    EXPECT_TRUE(remembered->empty());
    EXPECT_GT(own.memory().size(), 0u);
    expect_ok(run(599, 1), "another size");
    own.sum().forget(Job::key(0));
    EXPECT_EQ(own.memory().size(), 0u);
  });
}

// A forgotten parameter starts as it started first.
TEST_F(DeviceFeedback, ForgetsAsTheCpuDoes) {
  const Job job{.codec = "g_ternary+ef", .shapes = {{0, 3'000}}, .loss_scales = {1, 1}};
  const auto inputs = job.values();
  std::vector<Parameters> first(2);
  std::vector<Parameters> again(2);
  on_device_ranks(2, 1, [&](std::uint32_t rank, const auto& transports) {
    RouteRank own(job, transports);
    Parameters between;
    expect_ok(own.run(0, inputs[0][rank], first[rank]), "a first step");
    expect_ok(own.run(1, inputs[1][rank], between), "a second step");
    own.memory().forget(Job::key(0));
    expect_ok(own.run(0, inputs[0][rank], again[rank]), "a first step again");
  });
  EXPECT_TRUE(test::same_bits(again[0][0], first[0][0]));
}

}  // namespace
}  // namespace nf
