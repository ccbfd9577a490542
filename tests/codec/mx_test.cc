// mxfp8, mxfp6 and mxfp4 against the element formats of the OCP Microscaling specification, defined
// here by sign, exponent, mantissa and bias.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

constexpr std::size_t kBlock = 32;

struct Element {
  std::string codec;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  double max;  // in the table of the specification
  double min_positive;
  double reference_error;  // of +published: 8 ranks in a chain, normal and independent values

  // All magnitudes in ascending order; the index is the code.
  std::vector<double> magnitudes() const {
    std::vector<double> all;
    for (int exponent = 0; exponent < 1 << exponent_bits; ++exponent) {
      for (int mantissa = 0; mantissa < 1 << mantissa_bits; ++mantissa) {
        const double fraction = std::ldexp(mantissa, -mantissa_bits);
        const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                               : std::ldexp(1 + fraction, exponent - bias);
        if (magnitude <= max) all.push_back(magnitude);  // the last code of E4M3 is NaN
      }
    }
    return all;
  }
  int max_exponent() const { return std::ilogb(max); }
};

const Element kElements[] = {{"mxfp8", 4, 3, 7, 448, 0x1p-9, .0042},
                             {"mxfp6", 3, 2, 3, 28, 0x1p-4, .0169},
                             {"mxfp4", 2, 1, 1, 6, 0.5, .158}};

class EveryElement : public testing::TestWithParam<Element> {
 protected:
  // Encodes and decodes the values of one rank, without headroom.
  std::vector<float> round_trip(const std::vector<float>& values) const {
    const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
    const CodecContext context(*codec_, by_rank);
    const Message message = encode(*codec_, context.whole(), {0, 1}, by_rank[0].view());
    return decode(*codec_, context.whole(), {0, 1}, message);
  }

  // The nearest magnitude times the scale; ties go to the even code, larger values saturate.
  static double nearest(double value, double scale) {
    const std::vector<double> magnitudes = GetParam().magnitudes();
    std::size_t best = 0;
    for (std::size_t code = 1; code < magnitudes.size(); ++code) {
      const double off = std::abs(std::abs(value) / scale - magnitudes[code]);
      const double best_off = std::abs(std::abs(value) / scale - magnitudes[best]);
      if (off < best_off || (off == best_off && code % 2 == 0)) best = code;
    }
    return std::copysign(magnitudes[best] * scale, value);
  }

  // 2^k such that the maximum exponent of the format is that of the block's peak.
  static double scale_of(std::span<const float> block) {
    double peak = 0;
    for (const float value : block) peak = std::max<double>(peak, std::abs(value));
    return std::ldexp(1, std::ilogb(peak) - GetParam().max_exponent());
  }

  const std::unique_ptr<Codec> codec_ = make_for(available_isas().front(), GetParam().codec);
};

INSTANTIATE_TEST_SUITE_P(Mx, EveryElement, testing::ValuesIn(kElements),
                         [](const auto& param) { return param.param.codec; });

TEST_P(EveryElement, HasTheLimitsOfTheSpecification) {
  const std::vector<double> magnitudes = GetParam().magnitudes();
  EXPECT_EQ(magnitudes.back(), GetParam().max);
  EXPECT_EQ(magnitudes[1], GetParam().min_positive);
  const std::size_t codes = std::size_t{1} << (GetParam().exponent_bits + GetParam().mantissa_bits);
  EXPECT_EQ(magnitudes.size(), GetParam().codec == "mxfp8" ? codes - 1 : codes);
}

TEST_P(EveryElement, RepresentsEveryValueOfItsFormatExactly) {
  for (const int power : {-90, -20, 0, 3, 80}) {
    std::vector<float> values;
    for (const double magnitude : GetParam().magnitudes()) {
      for (const double sign : {1.0, -1.0}) {
        if (values.size() % kBlock == 0) {  // a peak that determines the scale
          values.push_back(static_cast<float>(std::ldexp(GetParam().max, power)));
        }
        const auto value = static_cast<float>(std::ldexp(sign * magnitude, power));
        values.push_back(magnitude == 0 ? 0.0f : value);
      }
    }
    EXPECT_TRUE(same_bits(round_trip(values), values)) << "scale 2^" << power;
  }
}

TEST_P(EveryElement, RoundsToNearestWithTiesToEven) {
  Generator random(1);
  std::vector<float> values;
  const std::vector<double> magnitudes = GetParam().magnitudes();
  for (std::size_t code = 0; code + 1 < magnitudes.size(); ++code) {
    const auto tie = static_cast<float>((magnitudes[code] + magnitudes[code + 1]) / 2);
    for (const float value : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, 1e9f)}) {
      if (values.size() % kBlock == 0) values.push_back(static_cast<float>(GetParam().max));
      values.push_back(random.below(2) != 0 ? value : -value);
    }
  }
  values.resize((values.size() + kBlock - 1) / kBlock * kBlock);
  const std::vector<float> more = random.mixture(50 * kBlock);
  values.insert(values.end(), more.begin(), more.end());
  const std::vector<float> decoded = round_trip(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t block = i / kBlock * kBlock;
    const double expected = nearest(values[i], scale_of(std::span(values).subspan(block, kBlock)));
    ASSERT_EQ(static_cast<double>(decoded[i]), expected) << "value " << i << ": " << values[i];
  }
}

TEST_P(EveryElement, SaturatesBetweenItsMaximumAndTheNextPowerOfTwo) {
  const auto next_power = static_cast<float>(std::ldexp(2, GetParam().max_exponent()));
  std::vector<float> values(kBlock, 1.0f);
  values[0] = std::nextafter(next_power, 0.0f);
  values[1] = -values[0];
  const std::vector<float> decoded = round_trip(values);
  EXPECT_EQ(decoded[0], static_cast<float>(GetParam().max));
  EXPECT_EQ(decoded[1], -static_cast<float>(GetParam().max));
}

TEST_P(EveryElement, LeavesHeadroomForTheSumOfAllRanks) {
  // The sum of four equal values that need no rounding is exact.
  const std::vector<float> values(kBlock, 1.0f);
  const std::vector<TypedValues> by_rank(4, TypedValues(DataType::kFloat32, values));
  const std::unique_ptr<Codec> with_headroom =
      make_for(available_isas().front(), GetParam().codec + "+headroom=2");
  const CodecContext context(*with_headroom, by_rank);
  const std::uint32_t order[] = {0, 1, 2, 3};
  const Message message = chain(*with_headroom, context.whole(), by_rank, order);
  for (const float value : decode(*with_headroom, context.whole(), {3, 4}, message)) {
    EXPECT_EQ(value, 4.0f);
  }
}

// The element formats with +published.
class EveryPublishedElement : public EveryElement {
 protected:
  const std::unique_ptr<Codec> published_ =
      make_for(available_isas().front(), GetParam().codec + "+published");
};

INSTANTIATE_TEST_SUITE_P(Mx, EveryPublishedElement, testing::ValuesIn(kElements),
                         [](const auto& param) { return param.param.codec; });

TEST_P(EveryPublishedElement, RoundsItsOwnValuesBeforeItAddsThem) {
  Generator random(2);
  const std::size_t count = 100 * kBlock + 7;
  for (const auto type : kAllTypes) {
    const std::vector<TypedValues> by_rank = {TypedValues(type, random.mixture(count)),
                                              TypedValues(type, random.mixture(count)),
                                              TypedValues(type, random.hostile(count))};
    const CodecContext context(*published_, by_rank);
    const Slice slice = context.whole();
    const Message first = encode(*published_, slice, {0, 1}, by_rank[0].view());
    const Message own = encode(*published_, slice, {1, 1}, by_rank[1].view());
    const TypedValues rounded(DataType::kFloat32, decode(*published_, slice, {1, 1}, own));
    const TypedValues sum(DataType::kFloat32,
                          decode_add(*published_, slice, {0, 1}, first, rounded));
    const Message expected = encode(*published_, slice, {1, 2}, sum.view());
    for (const Isa isa : available_isas()) {
      const std::unique_ptr<Codec> codec = make_for(isa, GetParam().codec + "+published");
      EXPECT_TRUE(same_bytes(decode_add_encode(*codec, slice, {0, 1}, first, by_rank[1].view(), 1),
                             expected));
    }
  }
}

TEST_P(EveryPublishedElement, AddsElementsExactlyAndRoundsTheirSumToEven) {
  const std::vector<double> magnitudes = GetParam().magnitudes();
  const std::size_t pairs = magnitudes.size() * magnitudes.size();
  const std::vector<std::byte> exponents((pairs + kBlock - 1) / kBlock, std::byte{127});
  for (const std::uint32_t ranks : {2, 3, 7, 8, 100}) {
    Slice slice;
    slice.count = pairs;
    slice.ranks = ranks;
    slice.statistics = exponents;
    // The decoded maximum gives the scale.
    const std::vector<float> huge(pairs, 0x1p100f);
    const Message saturated =
        encode(*published_, slice, {0, 1}, TypedValues(DataType::kFloat32, huge).view());
    const double scale = decode(*published_, slice, {0, 1}, saturated).front() / GetParam().max;
    std::vector<float> first(pairs);
    std::vector<float> second(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      first[i] = static_cast<float>(scale * magnitudes[i / magnitudes.size()]);
      second[i] = static_cast<float>(scale * magnitudes[i % magnitudes.size()]);
      if (i % 3 == 0) second[i] = -second[i];
    }
    const Message message =
        encode(*published_, slice, {0, 1}, TypedValues(DataType::kFloat32, first).view());
    const Message sum = decode_add_encode(*published_, slice, {0, 1}, message,
                                          TypedValues(DataType::kFloat32, second).view(), 1);
    const std::vector<float> decoded = decode(*published_, slice, {1, 2}, sum);
    for (std::size_t i = 0; i < pairs; ++i) {
      const double other = magnitudes[i % magnitudes.size()];
      const double exact = magnitudes[i / magnitudes.size()] + (i % 3 == 0 ? -other : other);
      ASSERT_EQ(decoded[i], static_cast<float>(nearest(exact, 1) * scale))
          << first[i] << " + " << second[i] << " of " << ranks << " ranks";
    }
  }
}

TEST_P(EveryPublishedElement, HasTheErrorOfTheReferenceSimulation) {
  Generator random(3);
  constexpr std::size_t kCount = 1 << 14;
  std::vector<TypedValues> by_rank;
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < 8; ++rank) {
    const std::vector<float> values = random.normal(kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += double{values[i]};
    by_rank.emplace_back(DataType::kFloat32, values);
  }
  const CodecContext context(*published_, by_rank);
  std::vector<std::uint32_t> order(8);
  std::iota(order.begin(), order.end(), 0u);
  const Message message = chain(*published_, context.whole(), by_rank, order);
  const std::vector<float> decoded = decode(*published_, context.whole(), {7, 8}, message);
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error += std::pow(decoded[i] - exact[i], 2);
    power += std::pow(exact[i], 2);
  }
  const double reference = GetParam().reference_error;
  EXPECT_NEAR(error / power, reference, reference / 4);
}

TEST_P(EveryPublishedElement, RejectsHeadroom) {
  const auto codec = make_codec(GetParam().codec + "+headroom=2+published");
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig);
}

}  // namespace
}  // namespace nf::test
