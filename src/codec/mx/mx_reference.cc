// The scalar reference of the MX codecs: a search for the nearest value in a table of all values of
// an element.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/mx/mx_kernels.h"

namespace nf {
namespace {

constexpr double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// The magnitudes of a format by code. They are ascending.
template <MxFormat kFormat>
constexpr auto magnitudes() {
  std::array<double, kFormat.max_code() + 1> values{};
  const unsigned mantissas = 1u << kFormat.mantissa_bits;
  for (unsigned code = 0; code < values.size(); ++code) {
    const unsigned exponent = code / mantissas;
    const double fraction = static_cast<double>(code % mantissas) / mantissas;
    values[code] = exponent == 0
                       ? fraction * power_of_two(1 - kFormat.bias())
                       : (1 + fraction) * power_of_two(static_cast<int>(exponent) - kFormat.bias());
  }
  return values;
}

template <MxFormat kFormat>
constexpr auto kMagnitudes = magnitudes<kFormat>();

static_assert(kMagnitudes<kE4m3>.back() == 448 && kMagnitudes<kE4m3>[1] == 0x1p-9);
static_assert(kMagnitudes<kE3m2>.back() == 28 && kMagnitudes<kE3m2>[1] == 0x1p-4);
static_assert(kMagnitudes<kE2m1>.back() == 6 && kMagnitudes<kE2m1>[1] == 0.5);

// The code of the magnitude nearest to `value`; ties go to the even code.
template <MxFormat kFormat>
std::uint32_t nearest_code(double value) {
  const auto& table = kMagnitudes<kFormat>;
  const auto above = std::lower_bound(table.begin(), table.end(), value);
  if (above == table.end()) return kFormat.max_code();
  const auto code = static_cast<std::uint32_t>(above - table.begin());
  if (*above == value) return code;
  const double up = *above - value;
  const double down = value - table[code - 1];
  if (up != down) return up < down ? code : code - 1;
  return code % 2 == 0 ? code : code - 1;
}

template <MxFormat kFormat>
std::uint32_t encode_element(float value, double scale) {
  const bool finite = std::isfinite(value);
  if (!finite && kFormat.has_nan) return kFormat.sign() - 1;
  const std::uint32_t code =
      finite ? nearest_code<kFormat>(std::fabs(value) / scale) : kFormat.max_code();
  return code != 0 && std::signbit(value) ? code | kFormat.sign() : code;
}

template <MxFormat kFormat>
float decode_element(std::uint32_t code, double scale) {
  const std::uint32_t magnitude = code & (kFormat.sign() - 1);
  if (magnitude > kFormat.max_code()) return std::numeric_limits<float>::quiet_NaN();
  const auto value = static_cast<float>(kMagnitudes<kFormat>[magnitude] * scale);
  return (code & kFormat.sign()) != 0 ? -value : value;
}

template <MxFormat kFormat>
double scale_of(const MxBlocks& blocks, unsigned exponent) {
  const int k = static_cast<int>(blocks.scale_field(exponent, kFormat)) - 127;
  return std::ldexp(static_cast<double>(blocks.stretch), k);
}

template <MxFormat kFormat>
void encode_block(const MxBlocks& blocks, std::size_t block, const float* values, std::byte* wire) {
  const unsigned exponent = blocks.exponent_of(block);
  std::uint32_t codes[kMxBlock] = {};
  if (blocks.has_codes(exponent)) {
    const double scale = scale_of<kFormat>(blocks, exponent);
    for (std::size_t i = 0; i < kMxBlock; ++i) {
      codes[i] = encode_element<kFormat>(values[i], scale);
    }
  }
  pack_codes(codes, kFormat.width(), wire);
}

template <MxFormat kFormat>
void decode_block(const MxBlocks& blocks, std::size_t block, const std::byte* wire, float* values) {
  const unsigned exponent = blocks.exponent_of(block);
  if (!blocks.has_codes(exponent)) {
    const float all = blocks.is_zero(exponent) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    std::fill(values, values + kMxBlock, all);
    return;
  }
  const double scale = scale_of<kFormat>(blocks, exponent);
  std::uint32_t codes[kMxBlock];
  unpack_codes(wire, kFormat.width(), codes);
  for (std::size_t i = 0; i < kMxBlock; ++i) values[i] = decode_element<kFormat>(codes[i], scale);
}

void statistics(const float* values, std::size_t blocks, std::byte* out) {
  for (std::size_t b = 0; b < blocks; ++b) {
    std::uint32_t peak = 0;
    for (std::size_t i = 0; i < kMxBlock; ++i) {
      peak = std::max(peak, magnitude_bits(values[b * kMxBlock + i]));
    }
    out[b] = static_cast<std::byte>(peak >> 23);
  }
}

template <MxFormat kFormat>
void encode(MxBlocks blocks, const float* values, std::byte* wire) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    encode_block<kFormat>(blocks, b, values + b * kMxBlock, wire + b * pack_bytes(kFormat.width()));
  }
}

template <MxFormat kFormat>
void decode(MxBlocks blocks, const std::byte* wire, float* values) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    decode_block<kFormat>(blocks, b, wire + b * pack_bytes(kFormat.width()), values + b * kMxBlock);
  }
}

template <MxFormat kFormat>
void decode_add(MxBlocks blocks, const std::byte* wire, float* values) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    float decoded[kMxBlock];
    decode_block<kFormat>(blocks, b, wire + b * pack_bytes(kFormat.width()), decoded);
    for (std::size_t i = 0; i < kMxBlock; ++i) values[b * kMxBlock + i] += decoded[i];
  }
}

template <MxFormat kFormat>
void decode_add_encode(MxBlocks blocks, const std::byte* wire, const float* values,
                       std::byte* out) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const std::size_t at = b * pack_bytes(kFormat.width());
    float sum[kMxBlock];
    decode_block<kFormat>(blocks, b, wire + at, sum);
    for (std::size_t i = 0; i < kMxBlock; ++i) sum[i] = values[b * kMxBlock + i] + sum[i];
    encode_block<kFormat>(blocks, b, sum, out + at);
  }
}

template <MxFormat kFormat>
void decode_add_encode_published(MxBlocks blocks, const std::byte* wire, const float* values,
                                 std::byte* out) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const std::size_t at = b * pack_bytes(kFormat.width());
    std::byte own[pack_bytes(kFormat.width())];
    encode_block<kFormat>(blocks, b, values + b * kMxBlock, own);
    float sum[kMxBlock];
    decode_block<kFormat>(blocks, b, own, sum);
    float decoded[kMxBlock];
    decode_block<kFormat>(blocks, b, wire + at, decoded);
    for (std::size_t i = 0; i < kMxBlock; ++i) sum[i] += decoded[i];
    encode_block<kFormat>(blocks, b, sum, out + at);
  }
}

template <MxFormat kFormat>
constexpr MxKernels kReference = {statistics, encode<kFormat>, decode<kFormat>, decode_add<kFormat>,
                                  decode_add_encode<kFormat>};
template <MxFormat kFormat>
constexpr MxKernels kPublished = {statistics, encode<kFormat>, decode<kFormat>, decode_add<kFormat>,
                                  decode_add_encode_published<kFormat>};

}  // namespace

const MxKernels& mx_reference(const MxFormat& format) {
  switch (format.width()) {
    case kE4m3.width(): return kReference<kE4m3>;
    case kE3m2.width(): return kReference<kE3m2>;
    default: return kReference<kE2m1>;
  }
}

const MxKernels& mx_published(const MxFormat& format) {
  switch (format.width()) {
    case kE4m3.width(): return kPublished<kE4m3>;
    case kE3m2.width(): return kPublished<kE3m2>;
    default: return kPublished<kE2m1>;
  }
}

}  // namespace nf
