#include "codec/codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::Generator;
using test::GuardedBytes;

std::vector<std::uint32_t> random_codes(Generator& random, unsigned width) {
  std::vector<std::uint32_t> codes(kPack);
  for (std::uint32_t& code : codes) code = static_cast<std::uint32_t>(random.below(1u << width));
  return codes;
}

// The position of bit `bit` of element `element` according to the table in codes.h, by a formula.
std::size_t bit_on_the_wire(unsigned width, std::size_t element, unsigned bit) {
  std::size_t plane_start = 0;
  unsigned first_bit = 0;
  for (const unsigned plane : {16u, 8u, 4u, 2u, 1u}) {
    if ((width & plane) == 0) continue;
    if (bit < first_bit + plane) {
      const unsigned in_plane = bit - first_bit;
      const std::size_t across = plane >= 8 ? kPack : plane == 4 ? 16 : plane == 2 ? 8 : kPack;
      const std::size_t within = plane == 1 ? element
                                            : 8 * (element % across) * std::max(plane / 8, 1u) +
                                                  element / across * plane + in_plane;
      return 8 * plane_start + within;
    }
    plane_start += 4 * plane;
    first_bit += plane;
  }
  return 0;
}

class EveryWidth : public testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Codes, EveryWidth, testing::Range(1u, kMaxWidth + 1));

TEST_P(EveryWidth, UnpackReversesPack) {
  Generator random(1);
  for (int round = 0; round < 50; ++round) {
    const std::vector<std::uint32_t> codes = random_codes(random, GetParam());
    GuardedBytes wire(pack_bytes(GetParam()), 1);
    pack_codes(codes.data(), GetParam(), wire.bytes().data());
    EXPECT_TRUE(wire.guards_intact());
    std::vector<std::uint32_t> unpacked(kPack, 99);
    unpack_codes(wire.bytes().data(), GetParam(), unpacked.data());
    EXPECT_EQ(unpacked, codes);
  }
}

TEST_P(EveryWidth, PackReversesUnpack) {
  Generator random(2);
  const std::vector<std::byte> wire = random.bytes(pack_bytes(GetParam()));
  std::uint32_t codes[kPack];
  unpack_codes(wire.data(), GetParam(), codes);
  for (const std::uint32_t code : codes) EXPECT_LT(code, 1u << GetParam());
  std::vector<std::byte> again(wire.size());
  pack_codes(codes, GetParam(), again.data());
  EXPECT_TRUE(test::same_bytes(again, wire));
}

TEST_P(EveryWidth, PutsEveryBitAtItsSpecifiedPosition) {
  for (std::size_t element = 0; element < kPack; ++element) {
    for (unsigned bit = 0; bit < GetParam(); ++bit) {
      std::uint32_t codes[kPack] = {};
      codes[element] = 1u << bit;
      std::vector<std::byte> wire(pack_bytes(GetParam()));
      pack_codes(codes, GetParam(), wire.data());
      std::vector<std::byte> expected(wire.size());
      const std::size_t at = bit_on_the_wire(GetParam(), element, bit);
      expected[at / 8] = static_cast<std::byte>(1u << at % 8);
      ASSERT_TRUE(test::same_bytes(wire, expected)) << "bit " << bit << " of element " << element;
    }
  }
}

TEST(Codes, CountPacksAndTheirBytes) {
  EXPECT_EQ(packs_of(0), 0u);
  EXPECT_EQ(packs_of(1), 1u);
  EXPECT_EQ(packs_of(32), 1u);
  EXPECT_EQ(packs_of(33), 2u);
  EXPECT_EQ(pack_bytes(1), 4u);
  EXPECT_EQ(pack_bytes(16), 64u);
}

}  // namespace
}  // namespace nf
