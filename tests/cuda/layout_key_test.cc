// Calls that differ in addresses only have one layout.
#include "cuda/collective/layout_key.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace nf::cuda {
namespace {

alignas(16) std::array<std::byte, 4096> memory;

// Three gradients, 32 bytes apart, from `at` on.
std::vector<Gradient> gradients_at(std::size_t at) {
  std::vector<Gradient> gradients;
  for (std::uint64_t i = 0; i < 3; ++i) {
    gradients.push_back({.parameter = i + 1,
                         .values = Values(memory.data() + at + 32 * i, 4, DataType::kBfloat16),
                         .rows = 2});
  }
  return gradients;
}

TEST(LayoutKey, IsThatOfTheSameGradientsAtOtherAddresses) {
  const LayoutKey key(gradients_at(0));
  EXPECT_TRUE(key.is_of(gradients_at(0)));
  EXPECT_TRUE(key.is_of(gradients_at(1024)));
  std::vector<Gradient> apart = gradients_at(16);
  apart[2].values.data = memory.data() + 2048;
  EXPECT_TRUE(key.is_of(apart));
}

TEST(LayoutKey, DependsOnEverythingElse) {
  const LayoutKey key(gradients_at(0));
  const auto is_of = [&](auto change) {
    std::vector<Gradient> gradients = gradients_at(0);
    change(gradients);
    return key.is_of(gradients);
  };
  EXPECT_FALSE(is_of([](auto& all) { all.pop_back(); }));
  EXPECT_FALSE(is_of([](auto& all) { all[1].parameter = 9; }));
  EXPECT_FALSE(is_of([](auto& all) { all[1].values.count = 3; }));
  EXPECT_FALSE(is_of([](auto& all) { all[1].values.type = DataType::kFloat16; }));
  EXPECT_FALSE(is_of([](auto& all) { all[1].rows = 4; }));
  EXPECT_FALSE(is_of([](auto& all) { all[1].values.data = memory.data() + 40; }));
  EXPECT_FALSE(key.is_of({}));
}

// A gradient that is misaligned is copied, so it needs memory. An empty one is not, wherever it is.
TEST(LayoutKey, IgnoresTheAlignmentOfEmptyGradients) {
  std::vector<Gradient> gradients = gradients_at(0);
  gradients[0].values.count = 0;
  const LayoutKey key(gradients);
  gradients[0].values.data = memory.data() + 3;
  EXPECT_TRUE(key.is_of(gradients));
  gradients[0].values.data = nullptr;
  EXPECT_TRUE(key.is_of(gradients));
}

TEST(LayoutKey, ContainsFirstElementsAndBorders) {
  const std::vector<std::uint64_t> firsts = {0, 256, 512};
  const std::vector<std::uint64_t> other_firsts = {0, 256, 768};
  const std::vector<std::size_t> borders = {0, 1, 3};
  const std::vector<std::size_t> other_borders = {0, 2, 3};
  const std::vector<Gradient> gradients = gradients_at(0);
  const LayoutKey key(gradients, firsts, borders);
  EXPECT_TRUE(key.is_of(gradients, firsts, borders));
  EXPECT_FALSE(key.is_of(gradients, other_firsts, borders));
  EXPECT_FALSE(key.is_of(gradients, firsts, other_borders));
  EXPECT_FALSE(key.is_of(gradients));
}

}  // namespace
}  // namespace nf::cuda
