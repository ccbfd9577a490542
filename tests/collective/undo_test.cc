// Calls that are undone, or whose sum is not finite, do not change the memory of an all-reduce.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "neuron_fabric/all_reduce.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/spellings.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Parameters;

// The sums of two parameters on one rank, one call per step.
class TwoParameters {
 public:
  TwoParameters(Transport& transport, const std::string& codec, DataType type = DataType::kFloat32)
      : rank_(transport.rank()), type_(type) {
    auto made = AllReduce::create(transport, {.codec = codec});
    EXPECT_TRUE(made) << to_string(made.status());
    sum_ = std::move(*made);
  }

  AllReduce& sum() { return *sum_; }

  // Sums gradients that depend on step and rank only. `spoil` may change those of this rank.
  Parameters run(std::uint64_t step, const std::function<void(Parameters&)>& spoil = {}) {
    test::Generator random(10 * step + rank_);
    Parameters own{random.normal(2000), random.normal(600)};
    if (spoil) spoil(own);
    std::vector<test::TypedValues> typed;
    for (const auto& values : own) typed.emplace_back(type_, values);
    const std::vector<Gradient> gradients{
        {.parameter = kFirst, .values = typed[0].view(), .rows = 40},
        {.parameter = kSecond, .values = typed[1].view(), .rows = 20}};
    const Status status = sum_->run({.step = step, .gradients = gradients});
    EXPECT_TRUE(status.ok()) << to_string(status);
    return {typed[0].widened(), typed[1].widened()};
  }

  static constexpr std::uint64_t kFirst = 4;
  static constexpr std::uint64_t kSecond = 5;

 private:
  const std::uint32_t rank_;
  const DataType type_;
  std::unique_ptr<AllReduce> sum_;
};

void blow_up(Parameters& own) {
  for (auto& values : own) {
    for (float& value : values) value *= 1e12f;
  }
}

class EveryMemory : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Codecs, EveryMemory, testing::ValuesIn(test::routes_with_memory()));

TEST_P(EveryMemory, IsRestoredByUndo) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters undone(transport, GetParam());
    TwoParameters without(transport, GetParam());
    for (const std::uint64_t step : {0u, 1u}) {
      EXPECT_EQ(undone.run(step), without.run(step));
    }
    undone.run(2, blow_up);
    EXPECT_NE(undone.sum().save_memory(), without.sum().save_memory());
    for (int times = 0; times < 2; ++times) {  // the second undo is a no-op
      undone.sum().undo(TwoParameters::kFirst);
      undone.sum().undo(TwoParameters::kSecond);
      EXPECT_EQ(undone.sum().save_memory(), without.sum().save_memory());
    }
    for (const std::uint64_t step : {3u, 4u}) {
      EXPECT_EQ(undone.run(step), without.run(step));
    }
  });
}

TEST_P(EveryMemory, IsRestoredPerParameter) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters own(transport, GetParam());
    own.run(0);
    const auto before = own.sum().save_memory();
    own.run(1);
    const auto after = own.sum().save_memory();
    own.sum().undo(TwoParameters::kSecond);
    const auto undone = own.sum().save_memory();
    ASSERT_EQ(undone.size(), before.size());
    for (std::size_t i = 0; i < undone.size(); ++i) {
      const bool is_first = undone[i].parameter == TwoParameters::kFirst;
      EXPECT_EQ(undone[i], is_first ? after[i] : before[i]);
      EXPECT_NE(before[i], after[i]);
    }
  });
}

TEST_P(EveryMemory, IsEmptyAfterTheFirstCallIsUndone) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters undone(transport, GetParam());
    undone.sum().undo(TwoParameters::kFirst);  // it has no memory yet
    undone.run(0, blow_up);
    undone.sum().undo(TwoParameters::kFirst);
    undone.sum().undo(TwoParameters::kSecond);
    TwoParameters fresh(transport, GetParam());
    EXPECT_EQ(undone.run(1), fresh.run(1));
  });
}

TEST_P(EveryMemory, IsNotRestoredAfterALoad) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters own(transport, GetParam());
    own.run(0);
    const auto told = own.sum().save_memory();
    own.run(1);
    ASSERT_TRUE(own.sum().load_memory(told).ok());
    own.sum().undo(TwoParameters::kFirst);
    EXPECT_EQ(own.sum().save_memory(), told);
  });
}

// If one parameter is not finite, the step is skipped, so the memory of no parameter may change.
TEST_P(EveryMemory, IsUnchangedByANonFiniteCall) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters own(transport, GetParam());
    own.run(0);
    const auto before = own.sum().save_memory();
    const Parameters result = own.run(1, [&](Parameters& values) {
      blow_up(values);
      if (transport.rank() == 1) values[1][7] = std::numeric_limits<float>::infinity();
    });
    EXPECT_FALSE(std::isfinite(result[1][7]));
    EXPECT_TRUE(std::isfinite(result[0][7]));
    EXPECT_EQ(own.sum().save_memory(), before);
    own.sum().undo(TwoParameters::kFirst);  // that call changed nothing
    EXPECT_EQ(own.sum().save_memory(), before);
  });
}

// A sum of FP16 values may overflow FP16.
TEST_P(EveryMemory, IsUnchangedByACallWhoseSumOverflows) {
  on_all_ranks(2, [](Transport& transport) {
    TwoParameters own(transport, GetParam(), DataType::kFloat16);
    own.run(0);
    const auto before = own.sum().save_memory();
    const Parameters result = own.run(1, [&](Parameters& values) {
      for (float& value : values[1]) value = 6e4f;
    });
    EXPECT_FALSE(std::isfinite(result[1][7]));
    EXPECT_EQ(own.sum().save_memory(), before);
  });
}

}  // namespace
}  // namespace nf
