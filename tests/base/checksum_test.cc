#include "base/checksum.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace nf {
namespace {

// Test vectors of the XXH3 reference implementation.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum(std::string_view("")), 0x2d06800538d394c2u);
  EXPECT_EQ(checksum(std::span<const std::byte>()), 0x2d06800538d394c2u);
}

TEST(Checksum, IsEqualForBytesAndText) {
  const std::string text = "waterfill:4";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text))), checksum(std::string_view(text)));
}

TEST(Checksum, DependsOnEveryBitAndOnTheSeed) {
  std::vector<std::byte> bytes(100);
  std::set<std::uint64_t> seen = {checksum(bytes), checksum(bytes, 1), checksum(bytes, 2)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    seen.insert(checksum(flipped));
  }
  EXPECT_EQ(seen.size(), 3 + 8 * bytes.size());
}

TEST(Checksum, DependsOnTheLength) {
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size < 300; ++size)
    seen.insert(checksum(std::vector<std::byte>(size)));
  EXPECT_EQ(seen.size(), 300u);
}

}  // namespace
}  // namespace nf
