#include "cuda/device_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

#include "base/float16.h"

namespace nf::test {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  char two[4];
  for (const std::byte byte : bytes) {
    std::snprintf(two, sizeof two, "%02x ", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

}  // namespace

bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

void expect_ok(const Status& status, const char* what) {
  EXPECT_TRUE(status.ok()) << what << ": " << to_string(status);
}

void expect_cuda(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

void expect_same(const char* what, std::span<const std::byte> actual,
                 std::span<const std::byte> expected) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const auto at = static_cast<std::size_t>(
      std::mismatch(actual.begin(), actual.end(), expected.begin()).first - actual.begin());
  if (at == actual.size()) return;
  const std::size_t wrong =
      actual.size() -
      static_cast<std::size_t>(std::inner_product(
          actual.begin(), actual.end(), expected.begin(), std::ptrdiff_t{0}, std::plus<>(),
          [](std::byte a, std::byte b) -> std::ptrdiff_t { return a == b ? 1 : 0; }));
  const std::size_t from = at / 8 * 8;
  const std::size_t size = std::min<std::size_t>(24, actual.size() - from);
  ADD_FAILURE() << what << ": " << wrong << " of " << actual.size()
                << " bytes differ, the first at " << at << "\n  device "
                << hex(actual.subspan(from, size)) << "\n  cpu    "
                << hex(expected.subspan(from, size));
}

DeviceCopy::DeviceCopy(std::span<const std::byte> bytes) : size_(bytes.size()) {
  expect_cuda(cudaMalloc(&memory_, std::max<std::size_t>(size_, 1)));
  expect_cuda(cudaMemcpy(memory_, bytes.data(), size_, cudaMemcpyHostToDevice));
}

DeviceCopy::~DeviceCopy() { static_cast<void>(cudaFree(memory_)); }

Bytes DeviceCopy::bytes() const {
  Bytes copy(size_);
  expect_cuda(cudaMemcpy(copy.data(), memory_, size_, cudaMemcpyDeviceToHost));
  return copy;
}

Bytes with_one_nan(Bytes values, DataType type) {
  if (type != DataType::kFloat32) return values;
  for (std::size_t at = 0; at + 4 <= values.size(); at += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values.data() + at, 4);
    if ((bits & kMagnitudeMask) <= kInfinityBits) continue;
    bits = 0x7fc00000u;
    std::memcpy(values.data() + at, &bits, 4);
  }
  return values;
}

float widened(ConstValues values, std::size_t i) {
  if (values.type == DataType::kFloat32) return static_cast<const float*>(values.data)[i];
  std::uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(values.data) + 2 * i, 2);
  return values.type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

}  // namespace nf::test
