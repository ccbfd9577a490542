#include "codec/sign/sign_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codec/sign/sign_format.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::uint32_t kLargestFiniteBits = 0x7f7fffffu;

}  // namespace

void clear_sign_gap(std::size_t count, std::byte* wire) {
  std::memset(wire + sign_scale_bytes(count), 0, sign_codes_at(count) - sign_scale_bytes(count));
}

Status validate_sign_scales(std::size_t count, const std::byte* wire) {
  for (std::size_t b = 0; b < sign_blocks_of(count); ++b) {
    const auto bits = std::bit_cast<std::uint32_t>(get_float(wire + 4 * b));
    if (bits > kLargestFiniteBits && bits != kPoisonScaleBits) {
      return {ErrorCode::kCorruptFrame, fmt::format("invalid scale {:#010x} of block {}", bits, b)};
    }
  }
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::all_of(wire + sign_scale_bytes(count), wire + sign_codes_at(count), is_zero)) {
    return {ErrorCode::kCorruptFrame, "a byte between scales and codes is not zero"};
  }
  return {};
}

}  // namespace nf
