#include "runtime/scale.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/float16.h"

namespace nf {
namespace {

TEST(Scale, MultipliesFloats) {
  std::vector<float> values = {1.0f, -3.0f, 1e-40f};
  scale(Values(values), 0.5f);
  EXPECT_EQ(values, (std::vector<float>{0.5f, -1.5f, 1e-40f * 0.5f}));
}

TEST(Scale, Rounds16BitValuesOnce) {
  std::vector<std::uint16_t> bf16 = {float_to_bfloat16(1.0f), float_to_bfloat16(5.0f)};
  scale(Values(bf16.data(), bf16.size(), DataType::kBfloat16), 1.0f / 3);
  EXPECT_EQ(bf16[0], float_to_bfloat16(1.0f / 3));
  EXPECT_EQ(bf16[1], float_to_bfloat16(5.0f * (1.0f / 3)));
  std::vector<std::uint16_t> fp16 = {float_to_float16(7.0f)};
  scale(Values(fp16.data(), fp16.size(), DataType::kFloat16), 1.0f / 3);
  EXPECT_EQ(fp16[0], float_to_float16(7.0f * (1.0f / 3)));
}

}  // namespace
}  // namespace nf
