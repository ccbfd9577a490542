// The memory of an all-reduce can be saved and loaded, and is stored without the loss scale.
#include "collective/checkpoint_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "neuron_fabric/all_reduce.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/spellings.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Parameters;
using test::same_bits;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kMatrix = 7;
constexpr std::uint64_t kVector = 3;
constexpr std::size_t kRows = 40;

// A matrix and a vector that differ by rank and step, times `scale`.
Parameters values_of(std::uint32_t rank, std::uint64_t step, float scale = 1) {
  test::Generator random(100 * step + rank);
  Parameters parameters = {random.mixture(kRows * 64), random.mixture(700)};
  for (auto& parameter : parameters) {
    for (float& value : parameter) value *= scale;
  }
  return parameters;
}

std::vector<Gradient> gradients_of(Parameters& parameters) {
  return {{.parameter = kMatrix, .values = Values(parameters[0]), .rows = kRows},
          {.parameter = kVector, .values = Values(parameters[1])}};
}

// The sum of one step on this rank, divided by its loss scale.
Parameters run_step(AllReduce& sum, std::uint32_t rank, std::uint64_t step, float scale = 1) {
  Parameters parameters = values_of(rank, step, scale);
  const std::vector<Gradient> gradients = gradients_of(parameters);
  const Status status = sum.run({.step = step, .gradients = gradients, .loss_scale = scale});
  EXPECT_TRUE(status.ok()) << to_string(status);
  for (auto& parameter : parameters) {
    for (float& value : parameter) value /= scale;
  }
  return parameters;
}

void expect_same(const Parameters& actual, const Parameters& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t p = 0; p < actual.size(); ++p) EXPECT_TRUE(same_bits(actual[p], expected[p]));
}

class Memory : public testing::TestWithParam<std::tuple<std::string, Topology>> {
 protected:
  AllReduceOptions options() const {
    const auto& [codec, topology] = GetParam();
    return {
        .codec = codec, .topology = topology, .host_group_size = 2, .seed = 5, .tile_bytes = 700};
  }
};

TEST_P(Memory, LetsANewInstanceContinueBitIdentically) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    on_all_ranks(ranks, [&](Transport& transport) {
      const auto whole = AllReduce::create(transport, options());
      const auto before = AllReduce::create(transport, options());
      const auto after = AllReduce::create(transport, options());
      ASSERT_TRUE(whole && before && after) << to_string(whole.status());
      for (std::uint64_t step = 0; step < 6; ++step) {
        if (step == 3) {
          const std::vector<MemoryEntry> memory = (*before)->save_memory();
          const Status status = (*after)->load_memory(memory);
          EXPECT_TRUE(status.ok()) << to_string(status);
          EXPECT_EQ((*after)->save_memory(), memory);
        }
        AllReduce& resumed = step < 3 ? **before : **after;
        expect_same(run_step(resumed, transport.rank(), step),
                    run_step(**whole, transport.rank(), step));
      }
      EXPECT_EQ((*after)->save_memory(), (*whole)->save_memory());
    });
  }
}

// Shows that the test above can fail.
TEST_P(Memory, ChangesTheResult) {
  on_all_ranks(4, [&](Transport& transport) {
    const auto used = AllReduce::create(transport, options());
    const auto fresh = AllReduce::create(transport, options());
    (void)run_step(**used, transport.rank(), 0);
    EXPECT_NE(run_step(**used, transport.rank(), 1), run_step(**fresh, transport.rank(), 1));
  });
}

TEST_P(Memory, IsForgottenPerParameter) {
  on_all_ranks(2, [&](Transport& transport) {
    const auto used = AllReduce::create(transport, options());
    (void)run_step(**used, transport.rank(), 0);
    (*used)->forget(kMatrix);
    for (const MemoryEntry& one : (*used)->save_memory()) EXPECT_EQ(one.parameter, kVector);
    (*used)->forget(kVector);
    EXPECT_THAT((*used)->save_memory(), IsEmpty());
    const auto fresh = AllReduce::create(transport, options());
    expect_same(run_step(**used, transport.rank(), 1), run_step(**fresh, transport.rank(), 1));
  });
}

// A constant power of two as loss scale changes no bits.
TEST_P(Memory, IsIndependentOfAConstantPowerOfTwo) {
  on_all_ranks(2, [&](Transport& transport) {
    const auto told = AllReduce::create(transport, options());
    const auto untold = AllReduce::create(transport, options());
    for (std::uint64_t step = 0; step < 3; ++step) {
      Parameters one = values_of(transport.rank(), step, 0x1p12f);
      Parameters other = one;
      ASSERT_TRUE(
          (*told)->run({.step = step, .gradients = gradients_of(one), .loss_scale = 0x1p12f}).ok());
      ASSERT_TRUE((*untold)->run({.step = step, .gradients = gradients_of(other)}).ok());
      expect_same(one, other);
    }
    std::vector<MemoryEntry> scaled = (*told)->save_memory();
    for (MemoryEntry& one : scaled) {
      if (one.kind == "basis") continue;  // has unit length at any scale
      const float factor = one.kind == "rms_history" ? 0x1p24f : 0x1p12f;
      for (float& value : one.values) value *= factor;
    }
    EXPECT_EQ(scaled, (*untold)->save_memory());
  });
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Memory,
                         testing::Combine(testing::ValuesIn(test::routes_with_memory()),
                                          testing::ValuesIn(all_topologies())),
                         [](const auto& tested) {
                           std::string name = std::get<0>(tested.param) + "_";
                           name += to_string(std::get<1>(tested.param));
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// A scale that changes by powers of two gives the same bits as a constant one: powersgd is linear
// in its input.
TEST(LossScale, MayChangeBetweenCalls) {
  for (const Topology topology : {Topology::kRing, Topology::kHierarchical}) {
    const AllReduceOptions options{
        .codec = "powersgd:2", .topology = topology, .host_group_size = 2};
    on_all_ranks(4, [&](Transport& transport) {
      const auto plain = AllReduce::create(transport, options);
      const auto scaled = AllReduce::create(transport, options);
      const float scales[] = {0x1p16f, 0x1p17f, 0x1p3f, 1, 0x1p-4f};
      for (std::uint64_t step = 0; step < std::size(scales); ++step) {
        expect_same(run_step(**scaled, transport.rank(), step, scales[step]),
                    run_step(**plain, transport.rank(), step));
      }
      EXPECT_EQ((*scaled)->save_memory(), (*plain)->save_memory());
    });
  }
}

// Summed over steps, outputs differ from inputs by the residual only, even if the scale changes by
// large factors: otherwise an error at one scale would count 1000 times at another.
TEST(LossScale, IsRemovedFromResiduals) {
  const auto error_with = [](std::vector<float> scales) {
    std::vector<double> error(kRows * 64, 0);
    on_all_ranks(2, [&](Transport& transport) {
      const auto sum = AllReduce::create(transport, {.codec = "waterfill:2+ef"});
      for (std::uint64_t step = 0; step < 20; ++step) {
        const Parameters got =
            run_step(**sum, transport.rank(), step, scales[step % scales.size()]);
        if (transport.rank() != 0) continue;
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
          const Parameters wanted = values_of(rank, step);
          for (std::size_t i = 0; i < error.size(); ++i) error[i] -= double{wanted[0][i]};
        }
        for (std::size_t i = 0; i < error.size(); ++i) error[i] += double{got[0][i]};
      }
    });
    double energy = 0;
    for (const double one : error) energy += one * one;
    return energy;
  };
  EXPECT_LT(error_with({1, 1000, 0.1f, 65536}), 2 * error_with({1}));
}

// The residual of a stale rank is divided by the scale of the other ranks, not by its own.
TEST(LossScale, OfAStaleRankIsReplaced) {
  for (const std::string& codec : test::routes_with_memory()) {
    for (const Topology topology : all_topologies()) {
      SCOPED_TRACE(codec + " " + std::string(to_string(topology)));
      const AllReduceOptions options{.codec = codec, .topology = topology, .host_group_size = 2};
      on_all_ranks(4, [&](Transport& transport) {
        const auto expected = AllReduce::create(transport, options);
        const auto stale = AllReduce::create(transport, options);
        const float scales[] = {1024, 512, 3, 1024};
        for (std::uint64_t step = 0; step < std::size(scales); ++step) {
          const bool is_stale = transport.rank() == 2 && step > 0;
          Parameters one = values_of(transport.rank(), step, scales[step]);
          Parameters other = one;
          const std::vector<Gradient> ones = gradients_of(one);
          const std::vector<Gradient> others = gradients_of(other);
          const Status status =
              (*expected)->run({.step = step, .gradients = ones, .loss_scale = scales[step]});
          ASSERT_TRUE(status.ok()) << to_string(status);
          const Status same = (*stale)->run({.step = step,
                                             .gradients = others,
                                             .loss_scale = is_stale ? scales[0] : scales[step],
                                             .loss_scale_version = is_stale ? 1 : step + 1});
          ASSERT_TRUE(same.ok()) << to_string(same);
          expect_same(other, one);
        }
        EXPECT_EQ((*stale)->save_memory(), (*expected)->save_memory());
      });
    }
  }
}

TEST(LossScale, MustBeANormalNumberAboveZero) {
  for (const char* codec : {"waterfill:3+ef", "powersgd:2"}) {
    for (const float scale : {0.0f, -1.0f, 1e-40f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      on_all_ranks(1, [&](Transport& transport) {
        const auto sum = AllReduce::create(transport, {.codec = codec});
        const Status status = (*sum)->run({.loss_scale = scale});
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(status.message(), HasSubstr("loss scale"));
      });
    }
  }
}

// Each of these is rejected, and changes no memory.
TEST(LoadMemory, RejectsInvalidEntriesAndChangesNothing) {
  const auto residual = [](std::uint64_t parameter, std::size_t count) {
    return MemoryEntry{
        .parameter = parameter, .kind = "residual", .values = std::vector<float>(count, 0.25f)};
  };
  const auto factor = [](std::string kind, std::size_t rows, std::size_t count) {
    return MemoryEntry{.parameter = kMatrix,
                       .kind = std::move(kind),
                       .rows = rows,
                       .values = std::vector<float>(count, 0.5f)};
  };
  MemoryEntry poisoned = residual(kMatrix, kRows * 64);
  poisoned.values[9] = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    std::string codec;
    std::vector<MemoryEntry> memory;
    std::string message;
  };
  const Case cases[] = {
      {"waterfill:3+ef", {residual(kVector, 700), residual(kMatrix, 99)}, "residual of 99 values"},
      {"waterfill:3+ef", {residual(kVector, 700), poisoned}, "contains NaN or Inf"},
      {"waterfill:3+ef", {residual(kMatrix, kRows * 64), residual(kMatrix, kRows * 64)}, "twice"},
      {"waterfill:3+ef", {factor("basis", kRows, 128)}, "it stores: residual"},
      {"fp32", {residual(kMatrix, kRows * 64)}, "it has no memory"},
      {"powersgd:2", {residual(kMatrix, kRows * 64)}, "it stores: basis, error"},
      {"powersgd:2", {factor("error", kRows, kRows * 64)}, "its basis is missing"},
      {"powersgd:2", {factor("basis", kRows, 128)}, "its error is missing"},
      {"powersgd:2",
       {factor("basis", kRows, 128), factor("error", 64, kRows * 64)},
       "do not match"},
      {"powersgd:2",
       {factor("basis", kRows, 99), factor("error", kRows, kRows * 64)},
       "basis of 99"},
      {"powersgd:2", {factor("basis", kRows, 128), factor("error", kRows, 99)}, "error of 99"},
      {"powersgd:2", {factor("basis", 0, 0), factor("error", 0, 0)}, "do not match"},
      {"powersgd:2", {factor("basis", 20, 128), factor("error", 20, 1280)}, "of 40 x 64"},
      {"powersgd:2", {factor("basis", 2, 8), factor("error", 2, 8)}, "do not match"},
  };
  for (const Case& tested : cases) {
    SCOPED_TRACE(tested.codec + ": " + tested.message);
    on_all_ranks(2, [&](Transport& transport) {
      const auto sum = AllReduce::create(transport, {.codec = tested.codec});
      (void)run_step(**sum, transport.rank(), 0);
      const std::vector<MemoryEntry> before = (*sum)->save_memory();
      const Status status = (*sum)->load_memory(tested.memory);
      EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr(tested.message));
      EXPECT_THAT(status.message(), HasSubstr("parameter 0x0000000000000007"));
      EXPECT_EQ((*sum)->save_memory(), before);
    });
  }
}

TEST(LoadMemory, MakesACallWithOtherSizesFail) {
  for (const char* codec : {"waterfill:3+ef", "powersgd:2"}) {
    std::vector<MemoryEntry> memory;
    on_all_ranks(2, [&](Transport& transport) {
      const auto sum = AllReduce::create(transport, {.codec = codec});
      (void)run_step(**sum, transport.rank(), 0);
      if (transport.rank() == 0) memory = (*sum)->save_memory();
    });
    on_all_ranks(2, [&](Transport& transport) {
      const auto sum = AllReduce::create(transport, {.codec = codec});
      ASSERT_TRUE((*sum)->load_memory(memory).ok());
      Parameters other = {std::vector<float>(kRows * 65, 1.0f), std::vector<float>(700, 1.0f)};
      const Status status = (*sum)->run({.gradients = gradients_of(other)});
      // The second rank may get the error from the first.
      EXPECT_THAT(status.message(), HasSubstr("parameter 0x0000000000000007"));
      EXPECT_THAT(status.message(), HasSubstr("call forget() first"));
      EXPECT_EQ((*sum)->save_memory(), memory);
    });
  }
}

TEST(SaveMemory, IsSortedByParameterAndKind) {
  std::vector<MemoryEntry> memory = {{.parameter = 9, .kind = "error"},
                                     {.parameter = 2, .kind = "error"},
                                     {.parameter = 9, .kind = "basis"}};
  sort_memory(memory);
  EXPECT_EQ(memory[0].parameter, 2u);
  EXPECT_EQ(memory[1].kind, "basis");
  EXPECT_EQ(memory[2].kind, "error");
}

}  // namespace
}  // namespace nf
