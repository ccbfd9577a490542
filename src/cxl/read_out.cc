#include "cxl/read_out.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/codes.h"
#include "codec/sign/sign_format.h"

namespace nf::cxl {
namespace {

constexpr std::byte kClosedByte{121};  // five closed gates
constexpr std::size_t kCodesAlignment = 16;

SignFormat format_of(Mode mode, std::uint32_t contributions) {
  return {.most_digit = most_digit(mode), .contributions = contributions, .voted = false};
}

// Elements 32 g ... 32 g + 31 of a plane.
std::uint32_t group_of(const Line& plane, std::size_t g) {
  return static_cast<std::uint32_t>(plane.words[g / 2] >> (32 * (g % 2)));
}

// The sum of one worker of g_ternary is in digits, five a byte, as the worker wrote them.
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

std::size_t codes_at(std::size_t count) {
  const std::size_t scales = 4 * ((count + kSignBlock - 1) / kSignBlock);
  return (scales + kCodesAlignment - 1) / kCodesAlignment * kCodesAlignment;
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
  for (std::size_t g = 0; g < groups_of(held); ++g) {
    const std::size_t in_group = std::min(kGroup, held - g * kGroup);
    const std::uint32_t mask = ~std::uint32_t{0} >> (kGroup - in_group);
    std::uint32_t group[kGroup] = {};
    for (unsigned k = 0; k < width; ++k) {
      const std::uint32_t bits = group_of(planes[k], g) & mask;
      for (std::size_t e = 0; e < kGroup; ++e) group[e] |= (bits >> e & 1) << k;
    }
    pack_group(group, width, codes.data() + (first / kGroup + g) * group_bytes(width));
  }
}

}  // namespace nf::cxl
