// The scalar reference of g_binary and g_ternary, from docs/codecs/g_binary.md and g_ternary.md.
#include <algorithm>
#include <cmath>

#include "codec/sign/sign_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

using Codes = std::uint32_t[kSignBlock];

// Sixteen running sums, folded in halves.
class RunningSum {
 public:
  void add(std::size_t i, float x) { sums_[i % 16] += x; }

  float fold() {
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums_[i] += sums_[i + half];
    }
    return sums_[0];
  }

 private:
  float sums_[16] = {};
};

std::uint32_t draw_bit(const SignBlocks& blocks, std::size_t b, std::size_t e) {
  const std::uint64_t block = (blocks.first + b) * (kSignBlock / kDrawBlock) + e / kDrawBlock;
  return draw16(DrawKey(blocks.draws, block), static_cast<std::uint32_t>(e % kDrawBlock)) & 1;
}

// The digits of block `b` and, returned, its scale.
float binary_digits(const SignBlocks& blocks, std::size_t b, const float* values, Codes& digits) {
  RunningSum sum;
  for (std::size_t e = 0; e < kSignBlock; ++e) {
    sum.add(e, std::fabs(values[e]));
    digits[e] = values[e] > 0 ? 1 : 0;
    if (values[e] == 0) digits[e] = draw_bit(blocks, b, e);
  }
  return poison_unless_finite(sum.fold() / static_cast<float>(blocks.held));
}

float ternary_digits(const SignBlocks& blocks, std::size_t /*b*/, const float* values,
                     Codes& digits) {
  RunningSum all;
  for (std::size_t e = 0; e < kSignBlock; ++e) all.add(e, std::fabs(values[e]));
  const float mean = all.fold() / static_cast<float>(blocks.held);
  const float threshold = blocks.tau * mean;
  RunningSum open;
  std::uint32_t gates = 0;
  for (std::size_t e = 0; e < kSignBlock; ++e) {
    const bool is_open = std::fabs(values[e]) > threshold;
    open.add(e, is_open ? std::fabs(values[e]) : 0.0f);
    gates += is_open ? 1 : 0;
    digits[e] = !is_open ? kClosedTrit : values[e] > 0 ? 2 : 0;
  }
  if (!std::isfinite(mean)) return poison_unless_finite(mean);
  return gates == 0 ? 0.0f : open.fold() / static_cast<float>(gates);
}

void put_codes(const SignFormat& format, const Codes& codes, std::byte* to) {
  if (!format.has_trits()) {
    for (std::size_t g = 0; g < kSignGroups; ++g) {
      pack_group(codes + g * kGroup, format.width(), to + g * group_bytes(format.width()));
    }
    return;
  }
  for (std::size_t u = 0; u < kTritUnits; ++u) {
    for (std::size_t j = 0; j < kTritUnitBytes; ++j) {
      std::uint32_t byte = 0;
      for (std::size_t i = 0; i < kTritsPerByte; ++i) {
        byte += kPowersOf3[i] * codes[u * kTritUnit + i * kTritUnitBytes + j];
      }
      to[u * kTritUnitBytes + j] = static_cast<std::byte>(byte);
    }
  }
}

void get_codes(const SignFormat& format, const std::byte* from, Codes& codes) {
  if (!format.has_trits()) {
    for (std::size_t g = 0; g < kSignGroups; ++g) {
      unpack_group(from + g * group_bytes(format.width()), format.width(), codes + g * kGroup);
    }
    return;
  }
  for (std::size_t u = 0; u < kTritUnits; ++u) {
    for (std::size_t j = 0; j < kTritUnitBytes; ++j) {
      const auto byte = std::to_integer<std::uint32_t>(from[u * kTritUnitBytes + j]);
      for (std::size_t i = 0; i < kTritsPerByte; ++i) {
        codes[u * kTritUnit + i * kTritUnitBytes + j] = byte / kPowersOf3[i] % 3;
      }
    }
  }
}

template <auto digits_of, std::uint32_t kMostDigit>
void encode(const SignBlocks& blocks, const float* values, SignOut wire) {
  constexpr SignFormat kFormat{.most_digit = kMostDigit};
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    put_float(digits_of(blocks, b, values + b * kSignBlock, codes), wire.scales + 4 * b);
    put_codes(kFormat, codes, wire.codes + b * kFormat.code_bytes(kSignBlock));
  }
}

template <auto digits_of>
void decode_add_encode(const SignBlocks& blocks, const SignFormat& in, SignIn wire,
                       const float* values, SignOut out) {
  const SignFormat sum = in.plus_one();
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    Codes digits;
    get_codes(in, wire.codes + b * in.code_bytes(kSignBlock), codes);
    const float scale = digits_of(blocks, b, values + b * kSignBlock, digits);
    for (std::size_t e = 0; e < kSignBlock; ++e) codes[e] += digits[e];
    put_float(poison_unless_finite(scale + get_float(wire.scales + 4 * b)), out.scales + 4 * b);
    put_codes(sum, codes, out.codes + b * sum.code_bytes(kSignBlock));
  }
}

template <typename Sink>
void for_each_value(const SignBlocks& blocks, const SignFormat& format, SignIn wire, Sink sink) {
  const auto contributions = static_cast<float>(format.contributions);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    get_codes(format, wire.codes + b * format.code_bytes(kSignBlock), codes);
    const float factor = get_float(wire.scales + 4 * b) / contributions;
    for (std::size_t e = 0; e < kSignBlock; ++e) {
      float level = static_cast<float>(codes[e]) * format.step() - contributions;
      if (blocks.majority) {
        if (level == 0) level = draw_bit(blocks, b, e) != 0 ? 1.0f : -1.0f;
        level = level > 0 ? contributions : -contributions;
      }
      // Adding zero changes no value but turns -0, as in 0 * -1, into +0.
      sink(b * kSignBlock + e, factor * level + 0.0f);
    }
  }
}

void decode(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values) {
  for_each_value(blocks, format, wire, [=](std::size_t e, float value) { values[e] = value; });
}

void decode_add(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values) {
  for_each_value(blocks, format, wire, [=](std::size_t e, float value) { values[e] += value; });
}

bool valid(const SignFormat& format, const std::byte* codes, std::size_t count) {
  if (format.has_trits()) {
    return std::all_of(codes, codes + format.code_bytes(count), [](std::byte byte) {
      return std::to_integer<std::uint32_t>(byte) <= kMostTritByte;
    });
  }
  for (std::size_t g = 0; g < groups_of(count); ++g) {
    std::uint32_t group[kGroup];
    unpack_group(codes + g * group_bytes(format.width()), format.width(), group);
    if (*std::max_element(group, group + kGroup) > format.most_code()) return false;
  }
  return true;
}

constexpr SignKernels kBinary = {encode<binary_digits, 1>, decode_add_encode<binary_digits>};
constexpr SignKernels kTernary = {encode<ternary_digits, 2>, decode_add_encode<ternary_digits>};
constexpr CountKernels kCount = {decode, decode_add, valid};

}  // namespace

const SignKernels& g_binary_reference() { return kBinary; }
const SignKernels& g_ternary_reference() { return kTernary; }
const CountKernels& count_reference() { return kCount; }

}  // namespace nf
