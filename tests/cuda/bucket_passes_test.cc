// Passes over a bucket in device memory yield the results of the host's.
#include "cuda/runtime/bucket_passes.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cuda/device_test.h"
#include "runtime/gradient_norm.h"
#include "runtime/scale.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::DeviceCopy;

std::vector<float> widened(ConstValues values) {
  std::vector<float> floats(values.count);
  for (std::size_t i = 0; i < values.count; ++i) floats[i] = test::widened(values, i);
  return floats;
}

// Normal values, and some zeros, denormals, huge values, Inf and NaN.
std::vector<float> values_of(std::size_t count, std::uint64_t seed) {
  test::Generator random(seed);
  std::vector<float> values = random.normal(count);
  const float hostile[] = {0.0f,
                           -0.0f,
                           1e-42f,
                           -3e38f,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i < count; i += 97) values[i] = hostile[i / 97 % std::size(hostile)];
  return values;
}

class BucketPasses : public test::OnDevice<testing::TestWithParam<DataType>> {};
INSTANTIATE_TEST_SUITE_P(Types, BucketPasses,
                         testing::Values(DataType::kFloat32, DataType::kBfloat16,
                                         DataType::kFloat16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(BucketPasses, ScaleLikeTheHost) {
  for (const std::size_t count : {1u, 7u, 16'383u, 16'385u, 100'003u}) {
    for (const std::size_t skipped : {0u, 1u}) {  // 1: not aligned
      test::TypedValues host(GetParam(), values_of(count + skipped, count));
      const std::size_t size = size_of(GetParam());
      const DeviceCopy device(std::span(host.data(), (count + skipped) * size));
      const auto part = [&](void* data) {
        return Values(static_cast<std::byte*>(data) + skipped * size, count, GetParam());
      };
      const Status status = cuda::scale(part(device.as<void>()), 1.0f / 3, nullptr);
      ASSERT_TRUE(status.ok()) << to_string(status);
      scale(part(host.view().data), 1.0f / 3);
      test::Bytes got = device.bytes();
      // A NaN of 32 bits keeps its payload on the host, but not on the device.
      ASSERT_TRUE(test::same_bits(widened(part(got.data())), widened(part(host.view().data))))
          << count << " values";
    }
  }
}

TEST_P(BucketPasses, ComputeNormsLikeTheHost) {
  const std::vector<BucketSlot> slots = {{.parameter = 0, .offset = 0, .count = 50'001},
                                         {.parameter = 1, .offset = 50'001, .count = 3},
                                         {.parameter = 2, .offset = 50'004, .count = 40'000}};
  const std::vector<std::uint32_t> regions = {1, 0, 1};
  constexpr std::size_t kCount = 90'004;
  test::TypedValues host(GetParam(), values_of(kCount, 5));
  std::vector<GradientNorm> expected(3);  // the last one is empty
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::byte* first = host.data() + slots[i].offset * size_of(GetParam());
    const GradientNorm norm = gradient_norm(ConstValues(first, slots[i].count, GetParam()));
    expected[regions[i]].energy += 2 * norm.energy;  // added in two calls
    expected[regions[i]].non_finite += 2 * norm.non_finite;
  }

  const DeviceCopy values(std::span(host.data(), kCount * size_of(GetParam())));
  const std::vector<cuda::NormChunk> chunks = cuda::norm_chunks(slots, regions);
  const DeviceCopy table(chunks);
  const std::vector<cuda::DeviceNorm> zeros(chunks.size());
  const DeviceCopy partial(zeros);
  const DeviceCopy norms(std::vector<cuda::DeviceNorm>(3));
  for (int call = 0; call < 2; ++call) {
    const Status status =
        cuda::add_norms(ConstValues(values.as<void>(), kCount, GetParam()),
                        table.as<cuda::NormChunk>(), static_cast<std::uint32_t>(chunks.size()), 3,
                        partial.as<cuda::DeviceNorm>(), norms.as<cuda::DeviceNorm>(), nullptr);
    ASSERT_TRUE(status.ok()) << to_string(status);
  }
  const test::Bytes bytes = norms.bytes();
  const auto* got = reinterpret_cast<const cuda::DeviceNorm*>(bytes.data());
  for (std::size_t region = 0; region < expected.size(); ++region) {
    EXPECT_NEAR(got[region].energy, expected[region].energy, 1e-9 * expected[region].energy);
    EXPECT_EQ(got[region].non_finite, expected[region].non_finite);
  }
  EXPECT_GT(expected[1].non_finite, 0u);
}

}  // namespace
}  // namespace nf
