// A byte of g_ternary holds the digits of five lanes at a distance of 32. A table maps each byte to
// the bits of its five lanes; an 8 x 8 bit transposition of eight bytes moves the bits to lanes.
#include "cxl/digits.h"

#include "codec/sign/sign_format.h"

namespace nf::cxl {
namespace {

constexpr std::size_t kUnits = kLineBytes / kTritUnitBytes;
constexpr std::size_t kBytesAtOnce = 8;

// Bit i of `ones`: digit i is 1. Bit i of `twos`: digit i is 2.
struct DigitBits {
  std::uint8_t ones = 0;
  std::uint8_t twos = 0;
};

constexpr std::array<DigitBits, 256> kDigitBits = [] {
  std::array<DigitBits, 256> table{};
  for (std::uint32_t byte = 0; byte <= kMaxTritByte; ++byte) {
    for (std::size_t i = 0; i < kTritsPerByte; ++i) {
      const std::uint32_t digit = byte / kPowersOf3[i] % 3;
      if (digit == 1) table[byte].ones |= static_cast<std::uint8_t>(1u << i);
      if (digit == 2) table[byte].twos |= static_cast<std::uint8_t>(1u << i);
    }
  }
  return table;
}();

// Bit i of byte j becomes bit j of byte i, by swapping blocks of 1, 2 and 4 bits.
constexpr std::uint64_t transpose(std::uint64_t x) {
  std::uint64_t swap = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
  x ^= swap ^ (swap << 7);
  swap = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
  x ^= swap ^ (swap << 14);
  swap = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
  return x ^ swap ^ (swap << 28);
}

// Stores byte i of `lanes` in lanes first + 32 i ... first + 32 i + 7.
void put_lanes(std::uint64_t lanes, std::size_t first, Line& line) {
  for (std::size_t i = 0; i < kTritsPerByte; ++i) {
    const std::size_t lane = first + kTritUnitBytes * i;
    line.words[lane / 64] |= (lanes >> (8 * i) & 0xff) << (lane % 64);
  }
}

bool decode_trits(const Line& line, Digits& digits) {
  const auto bytes = bytes_of(line);
  digits = {};
  unsigned max_byte = 0;
  for (std::size_t at = 0; at < kLineBytes; at += kBytesAtOnce) {
    std::uint64_t ones = 0;
    std::uint64_t twos = 0;
    for (std::size_t j = 0; j < kBytesAtOnce; ++j) {
      const auto byte = std::to_integer<unsigned>(bytes[at + j]);
      max_byte = byte > max_byte ? byte : max_byte;
      ones |= std::uint64_t{kDigitBits[byte].ones} << (8 * j);
      twos |= std::uint64_t{kDigitBits[byte].twos} << (8 * j);
    }
    const std::size_t lane = at / kTritUnitBytes * kTritUnit + at % kTritUnitBytes;
    put_lanes(transpose(ones), lane, digits.ones);
    put_lanes(transpose(twos), lane, digits.twos);
  }
  return max_byte <= kMaxTritByte;
}

static_assert(kUnits * kTritUnit == elements_of(Mode::kGTernary));

}  // namespace

bool decode_digits(Mode mode, const Line& line, Digits& digits) {
  if (mode == Mode::kGTernary) return decode_trits(line, digits);
  digits = {.ones = line, .twos = {}};
  return true;
}

}  // namespace nf::cxl
