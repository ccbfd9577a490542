// Special values with every codec: zeros stay zeros, NaN and Inf propagate, extreme values stay in
// range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

class EveryCodecOn : public testing::TestWithParam<CodecCase> {
 protected:
  // The decoded sum of all ranks.
  std::vector<float> sum_of(const std::vector<std::vector<float>>& ranks) const {
    std::vector<TypedValues> by_rank;
    std::vector<std::uint32_t> order;
    for (const std::vector<float>& values : ranks) {
      order.push_back(static_cast<std::uint32_t>(by_rank.size()));
      by_rank.emplace_back(DataType::kFloat32, values);
    }
    const CodecContext context(*codec_, by_rank);
    const Message message = chain(*codec_, context.whole(), by_rank, order);
    return decode(*codec_, context.whole(),
                  {order.back(), static_cast<std::uint32_t>(order.size())}, message);
  }

  const std::unique_ptr<Codec> codec_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryCodecOn, testing::ValuesIn(codec_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCodecOn, ZerosDecodeToPlusZero) {
  for (const std::size_t count : kFewCounts) {
    for (const float zero : {0.0f, -0.0f}) {
      for (std::size_t ranks = 1; ranks <= 3; ++ranks) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks of " << count << " times " << zero);
        const std::vector<std::vector<float>> values(ranks, std::vector<float>(count, zero));
        const bool exact = codec_->kind() == CodecKind::kDense;
        // Dense codecs keep the sign: -0 + -0 is -0.
        EXPECT_TRUE(same_bits(sum_of(values), std::vector<float>(count, exact ? zero : 0.0f)));
      }
    }
  }
}

TEST_P(EveryCodecOn, NonFiniteValuePropagatesButNotToOtherBlocks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::size_t kCount = 20481;
  constexpr std::size_t kFar = 8192;  // no block is larger
  Generator random(21);
  const std::vector<std::vector<float>> finite = {random.normal(kCount), random.normal(kCount),
                                                  random.normal(kCount)};
  for (const float poison : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const std::size_t ranks : {1u, 3u}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{10345}, kCount - 1}) {
        SCOPED_TRACE(testing::Message() << poison << " at " << at << ", " << ranks << " ranks");
        std::vector<std::vector<float>> values(finite.begin(),
                                               finite.begin() + static_cast<std::ptrdiff_t>(ranks));
        values[random.below(ranks)][at] = poison;
        const std::vector<float> decoded = sum_of(values);
        EXPECT_FALSE(std::isfinite(decoded[at])) << decoded[at];
        for (std::size_t i = 0; i < kCount; ++i) {
          const std::size_t distance = i > at ? i - at : at - i;
          if (distance < kFar) continue;
          ASSERT_TRUE(std::isfinite(decoded[i])) << "value " << i;
        }
      }
    }
  }
}

TEST_P(EveryCodecOn, NonFiniteValuesPropagate) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t count : kFewCounts) {
      SCOPED_TRACE(testing::Message() << count << " times " << poison);
      const std::vector<float> finite(count, 1.0f);
      const std::vector<float> decoded =
          sum_of({finite, std::vector<float>(count, poison), finite});
      for (const float value : decoded) ASSERT_FALSE(std::isfinite(value)) << value;
    }
  }
}

TEST_P(EveryCodecOn, ConstantsOfAnyMagnitudeKeepTheirSignAndSize) {
  const float max = std::numeric_limits<float>::max();
  // A step of the coarsest grid is as large as the value. The errors of rotated values are normally
  // distributed; with codes of one bit, their standard deviation is 0.75 values.
  const bool is_rotated = codec_->spec().name == "rotated";
  const float steps = is_rotated ? 6.0f : 2.0f;
  for (const float value :
       {0x1p-149f, 0x1p-126f, 1e-38f, 0x1p-100f, 1e-20f, 1.0f, 1e20f, 0x1p125f, 0x1p126f, max}) {
    for (const float sign : {1.0f, -1.0f}) {
      SCOPED_TRACE(sign * value);
      for (const float decoded : sum_of({std::vector<float>(1025, sign * value)})) {
        if (decoded == 0 && codec_->kind() == CodecKind::kSparse) continue;  // left out
        if (decoded == 0 && is_rotated) continue;                            // its codes may cancel
        if (!std::isfinite(decoded)) {
          // Only large values may overflow: FP16 ends at 65504.
          ASSERT_GE(value, 1e20f);
        } else if (decoded == 0 || value < 0x1p-100f) {
          ASSERT_LE(value, 1e-20f);  // values that a format cannot represent become zero
          ASSERT_LE(std::abs(decoded), 2 * 0x1p-100f);
        } else {
          ASSERT_GE(sign * decoded, (1 - steps) * value);
          ASSERT_LE(sign * decoded, (1 + steps) * value);
        }
      }
    }
  }
}

TEST_P(EveryCodecOn, FiniteValuesDecodeToFiniteValues) {
  for (int round = 0; round < rounds_of(4); ++round) {
    Generator random(22 + static_cast<std::uint64_t>(round));
    std::vector<std::vector<float>> values;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<float> v = random.hostile_finite(5121);
      for (float& x : v) x = std::clamp(x, -1e4f, 1e4f);  // within FP16, with headroom for the sum
      values.push_back(v);
    }
    for (const float decoded : sum_of(values)) ASSERT_TRUE(std::isfinite(decoded));
  }
}

}  // namespace
}  // namespace nf::test
