// powersgd in device memory: at every step the same bits and the same route memory as on the CPU.
#include "cuda/collective/device_low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/device_test.h"
#include "cuda/route_job.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

using testing::HasSubstr;
using Job = RouteJob;
using Outcome = RouteOutcome;

std::string powersgd(std::uint32_t terms) { return "powersgd:" + std::to_string(terms); }

class DeviceLowRank : public OnDevice<> {};

TEST_F(DeviceLowRank, MatchesTheCpuForAnyNumberOfTerms) {
  for (const std::uint32_t terms : {1u, 2u, 3u, 4u, 8u, 12u, 16u, 64u}) {
    SCOPED_TRACE(terms);
    expect_same_as_cpu({.codec = powersgd(terms)});
  }
}

TEST_F(DeviceLowRank, MatchesTheCpuForEveryTypeAndTopology) {
  for (const DataType type : kAllTypes) {
    for (const Topology topology : {Topology::kDirect, Topology::kRing}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " " << to_string(topology));
      expect_same_as_cpu({.codec = powersgd(4), .ranks = 3, .type = type, .topology = topology});
    }
  }
}

TEST_F(DeviceLowRank, MatchesTheCpuForLargeMatrices) {
  expect_same_as_cpu(
      {.codec = powersgd(8), .shapes = {Job::matrix(512, 4'608), {0, 512}}, .loss_scales = {1, 1}});
  expect_same_as_cpu({.codec = powersgd(2),
                      .shapes = {Job::matrix(3, 20'011), Job::matrix(20'011, 3)},
                      .loss_scales = {1, 1}});
}

TEST_F(DeviceLowRank, StoresTheErrorWithoutTheLossScale) {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    expect_same_as_cpu({.type = type, .loss_scales = {1024, 1024, 3, 0.125f, 65536}});
  }
}

// Zero on all ranks, or on one: the error is not added to the zeros, and does not change.
TEST_F(DeviceLowRank, KeepsTheErrorOfZeroMatrices) {
  for (const DataType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    expect_same_as_cpu({.ranks = 3,
                        .type = type,
                        .spoil = [](std::size_t step, std::uint32_t rank, Parameters& own) {
                          if (step != 1) return;
                          std::ranges::fill(own[1], rank == 0 ? 0.0f : -0.0f);
                          if (rank == 1) std::ranges::fill(own[9], 0.0f);
                        }});
  }
}

TEST_F(DeviceLowRank, PropagatesNanAndKeepsTheOldMemory) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(), 0x1p101f}) {
    const Job job{.codec = powersgd(9),
                  .ranks = 3,
                  .loss_scales = {1, 1, 1, 1},
                  .spoil = [&](std::size_t step, std::uint32_t rank, Parameters& own) {
                    if (step == 2 && rank == 1) own[1][149] = own[3][2'499] = bad;
                  }};
    const Outcome expected = on_cpu(job);
    EXPECT_TRUE(std::isnan(expected.values[2][0][1][0]));
    EXPECT_FALSE(std::isnan(expected.values[3][0][1][0]));
    expect_same(job, on_device(job), expected);
  }
}

// Overflow in a factored matrix or in a vector: the memory of no parameter of the call changes.
TEST_F(DeviceLowRank, KeepsTheOldMemoryIfASumOverflows) {
  for (const DataType type : kAllTypes) {
    for (const std::size_t bad : {1u, 3u}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " " << bad);
      // Sums that overflow the type, of values that do not.
      const float huge = type == DataType::kFloat16 ? 6e4f : 3e38f;
      Job job{.type = type, .spoil = [=](std::size_t step, std::uint32_t, Parameters& own) {
                if (step == 2) std::fill(own[bad].begin(), own[bad].end(), huge);
              }};
      const Outcome expected = on_cpu(job);
      EXPECT_FALSE(std::isfinite(expected.values[2][0][bad][0]));
      expect_same(job, on_device(job), expected);
      job.loss_scales.pop_back();
      EXPECT_EQ(expected.memory, on_cpu(job).memory);
    }
  }
}

TEST_F(DeviceLowRank, DrawsColumnsForZeros) {
  expect_same_as_cpu(
      {.codec = powersgd(4), .spoil = [](std::size_t step, std::uint32_t, Parameters& own) {
         if (step != 1) return;
         for (auto& values : own) std::fill(values.begin(), values.end(), 0.0f);
       }});
}

// Gradients of rank 1 whose factors are exact multiples of each other, so that columns are linearly
// dependent. For the second factor, ranks have different columns but the same rows.
TEST_F(DeviceLowRank, DrawsColumnsForMultiples) {
  expect_same_as_cpu({.codec = powersgd(4),
                      .shapes = {Job::matrix(100, 150), Job::matrix(40, 50)},
                      .spoil = [](std::size_t, std::uint32_t rank, Parameters& own) {
                        for (std::size_t p = 0; p < own.size(); ++p) {
                          const std::size_t cols = p == 0 ? 150 : 50;
                          for (std::size_t i = 0; i < own[p].size(); ++i) {
                            const std::size_t row = i / cols;
                            const auto exponent = static_cast<int>(i % cols * (3 + rank * p) % 7);
                            own[p][i] = std::ldexp(
                                row % 2 == rank ? 1.5f + 0.01f * static_cast<float>(row) : 0.0f,
                                exponent);
                          }
                        }
                      }});
}

TEST_F(DeviceLowRank, ChannelsShareTheMemory) {
  const Job job{.codec = powersgd(3), .loss_scales = {1, 1, 1, 1, 1}};
  expect_same(job, on_device(job, 2), on_cpu(job));
}

TEST_F(DeviceLowRank, ResumesFromCpuMemory) {
  Job job{.loss_scales = {1, 1, 1, 1}};
  const Outcome expected = on_cpu(job);
  Job begun = job;
  begun.loss_scales.resize(2);
  expect_same(job, on_device(job, 1, 2, on_cpu(begun).memory), expected, 2);
}

TEST_F(DeviceLowRank, RejectsOtherShapes) {
  Job job{.shapes = {Job::matrix(20, 30)}};
  const auto inputs = job.values();
  on_device_ranks(2, 1, [&](std::uint32_t rank, const auto& transports) {
    RouteRank own(job, transports);
    Parameters summed;
    expect_ok(own.run(0, inputs[0][rank], summed), "the first step");
    const auto run = [&](std::size_t rows, float loss_scale) {
      own.gradients()[0].rows = rows;
      return own.sum().enqueue({.gradients = own.gradients(), .loss_scale = loss_scale},
                               own.stream());
    };
    EXPECT_THAT(run(30, 1).message(), HasSubstr("call forget() first"));
    EXPECT_EQ(run(7, 1).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(run(20, 0).code(), ErrorCode::kInvalidArgument);
    auto saved = own.memory().save_memory();
    ASSERT_TRUE(saved);
    ASSERT_EQ(saved->size(), 2u);
    EXPECT_THAT(own.memory().load_memory({saved->data(), 1}).message(), HasSubstr("missing"));
    (*saved)[1].rows = (*saved)[0].rows = 30;
    EXPECT_EQ(own.memory().load_memory(*saved).code(), ErrorCode::kInvalidArgument);
    own.memory().forget(Job::key(0));
    saved = own.memory().save_memory();
    ASSERT_TRUE(saved);
    EXPECT_TRUE(saved->empty());
    EXPECT_GT(own.memory().size(), 0u);
    expect_ok(run(30, 1), "another shape");
    own.sum().forget(Job::key(0));
    EXPECT_EQ(own.memory().size(), 0u);
  });
}

TEST_F(DeviceLowRank, RestartsAForgottenParameter) {
  expect_restart_after_forget({.shapes = {Job::matrix(50, 60)}, .loss_scales = {1, 1}});
}

TEST(DeviceLowRankRoutes, RejectsBadSpellings) {
  for (const char* route : {"powersgd", "powersgd:0", "powersgd:65", "powersgd:2+ef"}) {
    EXPECT_EQ(cuda::check_device_collective({.codec = route}, 2).code(), ErrorCode::kBadConfig)
        << route;
  }
  EXPECT_TRUE(cuda::check_device_collective({.codec = "powersgd:64"}, 2).ok());
  EXPECT_TRUE(
      cuda::check_device_collective({.codec = "powersgd:2", .topology = Topology::kTree}, 8).ok());
}

}  // namespace
}  // namespace nf::test
