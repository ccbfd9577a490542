#include "collective/all_finite.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace nf {
namespace {

// Puts one value with these bits among zeros, at an unaligned address.
template <typename Bits>
bool is_finite_with(Bits bits, DataType type) {
  constexpr std::size_t kCount = 37;
  for (std::size_t at = 0; at < kCount; ++at) {
    std::vector<std::byte> bytes(1 + kCount * sizeof(Bits));
    std::memcpy(&bytes[1 + at * sizeof(Bits)], &bits, sizeof(Bits));
    if (!all_finite({&bytes[1], kCount, type})) return false;
  }
  return true;
}

TEST(AllFinite, DetectsNanAndInfOfEveryType) {
  for (const std::uint32_t sign : {0u, 0x8000'0000u}) {
    EXPECT_TRUE(is_finite_with<std::uint32_t>(sign | 0x7f7f'ffffu, DataType::kFloat32));
    EXPECT_FALSE(is_finite_with<std::uint32_t>(sign | 0x7f80'0000u, DataType::kFloat32));
    EXPECT_FALSE(is_finite_with<std::uint32_t>(sign | 0x7f80'0001u, DataType::kFloat32));
    const auto half = static_cast<std::uint16_t>(sign >> 16);
    const auto with = [half](unsigned bits) { return static_cast<std::uint16_t>(half | bits); };
    EXPECT_TRUE(is_finite_with(with(0x7f7f), DataType::kBfloat16));
    EXPECT_FALSE(is_finite_with(with(0x7f80), DataType::kBfloat16));
    EXPECT_FALSE(is_finite_with(with(0x7fc0), DataType::kBfloat16));
    EXPECT_TRUE(is_finite_with(with(0x7bff), DataType::kFloat16));
    EXPECT_FALSE(is_finite_with(with(0x7c00), DataType::kFloat16));
    EXPECT_FALSE(is_finite_with(with(0x7e00), DataType::kFloat16));
  }
}

TEST(AllFinite, IsTrueWithoutValues) { EXPECT_TRUE(all_finite({nullptr, 0, DataType::kFloat32})); }

}  // namespace
}  // namespace nf
