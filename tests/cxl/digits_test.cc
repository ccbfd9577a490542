#include "cxl/digits.h"

#include <gtest/gtest.h>

#include <vector>

#include "cxl/lines.h"

namespace nf::cxl {
namespace {

bool bit(const Line& line, std::size_t lane) {
  return (line.words[lane / 64] >> (lane % 64) & 1) != 0;
}

TEST(Digits, GBinaryDigitsAreTheBits) {
  nf::test::Generator generator(2);
  const Line line = test::random_line(generator, Mode::kGBinary);
  Digits digits;
  ASSERT_TRUE(decode_digits(Mode::kGBinary, line, digits));
  EXPECT_EQ(digits.ones, line);
  EXPECT_EQ(digits.twos, Line{});
}

TEST(Digits, GTernaryDigitsFollowTheDocumentedLayout) {
  nf::test::Generator generator(3);
  for (int round = 0; round < 100; ++round) {
    const Line line = test::random_line(generator, Mode::kGTernary);
    Digits digits;
    ASSERT_TRUE(decode_digits(Mode::kGTernary, line, digits));
    const unsigned powers[] = {1, 3, 9, 27, 81};
    for (std::size_t u = 0; u < 2; ++u) {
      for (std::size_t j = 0; j < 32; ++j) {
        const auto byte = std::to_integer<unsigned>(bytes_of(line)[32 * u + j]);
        for (std::size_t i = 0; i < 5; ++i) {
          const std::size_t lane = 160 * u + 32 * i + j;
          const unsigned digit = byte / powers[i] % 3;
          ASSERT_EQ(bit(digits.ones, lane), digit == 1) << lane;
          ASSERT_EQ(bit(digits.twos, lane), digit == 2) << lane;
        }
      }
    }
    for (std::size_t lane = 320; lane < 512; ++lane) {
      ASSERT_FALSE(bit(digits.ones, lane) || bit(digits.twos, lane)) << lane;
    }
  }
}

TEST(Digits, RejectsBytesThatDoNotEncodeFiveDigits) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::vector<std::byte> bytes(kLineBytes, std::byte{121});
    bytes[byte % kLineBytes] = std::byte(byte);
    Digits digits;
    EXPECT_EQ(decode_digits(Mode::kGTernary, line_of(bytes), digits), byte <= 242) << byte;
  }
}

}  // namespace
}  // namespace nf::cxl
