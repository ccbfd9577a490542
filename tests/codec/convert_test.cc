#include "codec/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "base/float16.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::Generator;
using test::GuardedBytes;
using test::same_bits;
using test::same_bytes;

class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  const ConvertKernels& kernels_ = convert_kernels(GetParam());
  const ConvertKernels& reference_ = convert_kernels(Isa::kScalar);
};

INSTANTIATE_TEST_SUITE_P(Convert, EveryIsa, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(EveryIsa, WidensEvery16BitValue) {
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> actual(halves.size());
  std::vector<float> expected(halves.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(halves.data());

  kernels_.bfloat16_to_float(bytes, halves.size(), actual.data());
  for (std::size_t i = 0; i < halves.size(); ++i) expected[i] = bfloat16_to_float(halves[i]);
  EXPECT_TRUE(same_bits(actual, expected));

  kernels_.float16_to_float(bytes, halves.size(), actual.data());
  for (std::size_t i = 0; i < halves.size(); ++i) expected[i] = float16_to_float(halves[i]);
  EXPECT_TRUE(same_bits(actual, expected));
}

TEST_P(EveryIsa, NarrowsLikeFloat16Header) {
  Generator random(1);
  std::vector<float> values = random.hostile(20000);
  for (const std::uint32_t bits :
       {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x477fefffu, 0x477ff000u, 0x38800000u,
        0x387fffffu, 0x33000000u, 0x33000001u}) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  std::vector<std::uint16_t> actual(values.size());
  auto* bytes = reinterpret_cast<std::byte*>(actual.data());
  kernels_.float_to_bfloat16(values.data(), values.size(), bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(actual[i], float_to_bfloat16(values[i])) << std::hexfloat << values[i];
  }
  kernels_.float_to_float16(values.data(), values.size(), bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(actual[i], float_to_float16(values[i])) << std::hexfloat << values[i];
  }
}

// Every small count at several alignments, and one count above the size from which stores stream.
TEST_P(EveryIsa, EqualsTheReferenceAtEveryCount) {
  Generator random(2);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count < 70; ++count) counts.push_back(count);
  counts.push_back((std::size_t{1} << 21) + 5);
  for (const std::size_t count : counts) {
    SCOPED_TRACE(count);
    const std::vector<float> values =
        count < 1000 ? random.hostile(count) : std::vector<float>(count, 1.234567f);
    const std::vector<std::byte> bytes =
        count < 1000 ? random.bytes(4 * count) : std::vector<std::byte>(4 * count, std::byte{0x3c});
    const std::size_t offset = count % 7;

    const auto writes = [&](auto kernel, std::size_t value_bytes) {
      GuardedBytes out(count * value_bytes, offset);
      (kernels_.*kernel)(values.data(), count, out.bytes().data());
      std::vector<std::byte> expected(count * value_bytes);
      (reference_.*kernel)(values.data(), count, expected.data());
      EXPECT_TRUE(out.guards_intact());
      EXPECT_TRUE(same_bytes(out.bytes(), expected));
    };
    writes(&ConvertKernels::float_to_bfloat16, 2);
    writes(&ConvertKernels::float_to_float16, 2);

    const auto adds = [&](auto kernel) {
      std::vector<float> actual = values;
      std::vector<float> expected = values;
      (kernels_.*kernel)(bytes.data(), count, actual.data());
      (reference_.*kernel)(bytes.data(), count, expected.data());
      EXPECT_TRUE(same_bits(actual, expected));
    };
    adds(&ConvertKernels::bfloat16_to_float);
    adds(&ConvertKernels::float16_to_float);
    adds(&ConvertKernels::add_float32);
    adds(&ConvertKernels::add_bfloat16);
    adds(&ConvertKernels::add_float16);

    const auto sums = [&](auto kernel, std::size_t value_bytes) {
      GuardedBytes out(count * value_bytes, offset);
      (kernels_.*kernel)(bytes.data(), values.data(), count, out.bytes().data());
      std::vector<std::byte> expected(count * value_bytes);
      (reference_.*kernel)(bytes.data(), values.data(), count, expected.data());
      EXPECT_TRUE(out.guards_intact());
      return testing::AssertionResult(same_bytes(out.bytes(), expected));
    };
    EXPECT_TRUE(sums(&ConvertKernels::sum_bfloat16, 2));
    EXPECT_TRUE(sums(&ConvertKernels::sum_float16, 2));
  }
}

// A test of its own, because the sum of two NaNs has the payload of either.
TEST_P(EveryIsa, SumsFloat32) {
  Generator random(3);
  for (std::size_t count = 0; count < 70; ++count) {
    const std::vector<float> values = random.hostile(count);
    const std::vector<float> others = random.hostile(count);
    std::vector<float> actual(count);
    std::vector<float> expected(count);
    kernels_.sum_float32(reinterpret_cast<const std::byte*>(others.data()), values.data(), count,
                         reinterpret_cast<std::byte*>(actual.data()));
    for (std::size_t i = 0; i < count; ++i) expected[i] = values[i] + others[i];
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

}  // namespace
}  // namespace nf
