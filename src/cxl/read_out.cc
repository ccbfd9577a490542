#include "cxl/read_out.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/codes.h"
#include "codec/sign/sign_format.h"

namespace nf::cxl {
namespace {

constexpr std::byte kClosedByte{121};  // five closed gates
constexpr std::size_t kMaxPlanes = 8;

SignFormat format_of(Mode mode, std::uint32_t contributions) {
  return {.max_digit = max_digit(mode), .contributions = contributions, .voted = false};
}

// Elements 32 p ... 32 p + 31 of a plane.
std::uint32_t pack_of(const Line& plane, std::size_t p) {
  return static_cast<std::uint32_t>(plane.words[p / 2] >> (32 * (p % 2)));
}

// Bit j of a byte goes to bit 0 of byte j.
constexpr std::array<std::uint64_t, 256> kSpread = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    for (unsigned j = 0; j < 8; ++j) table[byte] |= std::uint64_t{byte >> j & 1} << (8 * j);
  }
  return table;
}();

// Converts bit planes (bits[k] holds bit k of all 32 codes) to the planes of docs/wire_format.md,
// largest first. In a plane of `size` bits, byte j holds element j and every `stride`-th element
// after it, each in `size` bits, so eight elements of one bit are spread over eight bytes.
void put_pack(const std::uint32_t* bits, unsigned width, std::byte* to) {
  for (const unsigned size : {8u, 4u, 2u}) {
    if ((width & size) == 0) continue;
    const unsigned words = size / 2;  // of eight bytes
    for (unsigned word = 0; word < words; ++word) {
      std::uint64_t bytes = 0;
      for (unsigned q = word; q < 4; q += words) {  // elements 8 q ... 8 q + 7
        for (unsigned k = 0; k < size; ++k) {
          bytes |= kSpread[bits[k] >> (8 * q) & 0xff] << (q / words * size + k);
        }
      }
      std::memcpy(to + 8 * word, &bytes, 8);
    }
    to += 4 * size;
    bits += size;
  }
  if ((width & 1) != 0) std::memcpy(to, bits, 4);
}

// With one worker, the sum of g_ternary is in digits, five per byte, as the worker wrote them.
void put_trits(std::span<const Line> planes, std::span<std::byte> bytes) {
  for (std::size_t j = 0; j < bytes.size(); ++j) {
    const std::size_t unit = j / kTritUnitBytes * kTritUnit + j % kTritUnitBytes;
    std::uint32_t byte = 0;
    for (std::size_t i = 0; i < kTritsPerByte; ++i) {
      const std::size_t e = unit + kTritUnitBytes * i;
      const auto digit = static_cast<std::uint32_t>((planes[0].words[e / 64] >> (e % 64) & 1) |
                                                    (planes[1].words[e / 64] >> (e % 64) & 1) << 1);
      byte += kPowersOf3[i] * digit;
    }
    bytes[j] = static_cast<std::byte>(byte);
  }
}

}  // namespace

std::size_t code_bytes(Mode mode, std::size_t count, std::uint32_t contributions) {
  return format_of(mode, contributions).code_bytes(count);
}

std::size_t gradient_lines(Mode mode, std::size_t count) {
  return lines_of(code_bytes(mode, count, 1));
}

Line gradient_line(Mode mode, std::span<const std::byte> digits, std::size_t line) {
  const auto bytes = digits.subspan(line * kLineBytes);
  if (bytes.size() >= kLineBytes) return line_of(bytes.first(kLineBytes));
  std::array<std::byte, kLineBytes> whole;
  whole.fill(mode == Mode::kGTernary ? kClosedByte : std::byte{0});
  std::copy(bytes.begin(), bytes.end(), whole.begin());
  return line_of(whole);
}

void put_codes(Mode mode, std::uint32_t workers, std::span<const Line> planes, std::size_t line,
               std::size_t count, std::span<std::byte> codes) {
  const SignFormat format = format_of(mode, workers);
  const std::size_t first = line * elements_of(mode);
  if (format.has_trits()) {
    const auto rest = codes.subspan(line * kLineBytes);
    put_trits(planes, rest.first(std::min(rest.size(), kLineBytes)));
    return;
  }
  const unsigned width = format.width();
  const std::size_t held = std::min<std::size_t>(elements_of(mode), count - first);
  for (std::size_t p = 0; p < packs_of(held); ++p) {
    const std::size_t in_pack = std::min(kPack, held - p * kPack);
    const std::uint32_t mask = ~std::uint32_t{0} >> (kPack - in_pack);
    std::uint32_t bits[kMaxPlanes];
    for (unsigned k = 0; k < width; ++k) bits[k] = pack_of(planes[k], p) & mask;
    put_pack(bits, width, codes.data() + (first / kPack + p) * pack_bytes(width));
  }
}

}  // namespace nf::cxl
