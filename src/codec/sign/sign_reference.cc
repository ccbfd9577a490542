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

std::uint32_t draw_bit(const SignBlocks& blocks, const DrawStream& draws, std::size_t b,
                       std::size_t e) {
  const std::uint64_t block = (blocks.first + b) * (kSignBlock / kDrawBlock) + e / kDrawBlock;
  return draw16(DrawKey(draws, block), static_cast<std::uint32_t>(e % kDrawBlock)) & 1;
}

// The majority digit of element e of block b, for contributions that sum to `code`.
std::uint32_t majority_digit(const SignBlocks& blocks, std::size_t b, std::size_t e,
                             std::uint32_t contributions, std::uint32_t code) {
  if (2 * code == contributions) return draw_bit(blocks, blocks.ties, b, e);
  return 2 * code > contributions ? 1 : 0;
}

// Computes the digits of block `b` and returns its scale.
float binary_digits(const SignBlocks& blocks, std::size_t b, const float* values, Codes& digits) {
  RunningSum sum;
  for (std::size_t e = 0; e < kSignBlock; ++e) {
    sum.add(e, std::fabs(values[e]));
    digits[e] = values[e] > 0 ? 1 : 0;
    if (values[e] == 0) digits[e] = draw_bit(blocks, blocks.zeros, b, e);
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
    for (std::size_t p = 0; p < kSignPacks; ++p) {
      pack_codes(codes + p * kPack, format.width(), to + p * pack_bytes(format.width()));
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
    for (std::size_t p = 0; p < kSignPacks; ++p) {
      unpack_codes(from + p * pack_bytes(format.width()), format.width(), codes + p * kPack);
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

template <auto digits_of>
void encode(const SignBlocks& blocks, const float* values, SignOut wire) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    put_float(digits_of(blocks, b, values + b * kSignBlock, codes), wire.scales + 4 * b);
    put_codes(wire.format, codes, wire.codes + b * wire.format.code_bytes(kSignBlock));
  }
}

// Reads the codes of block b and returns its scale.
float get_block(SignIn wire, std::size_t b, Codes& codes) {
  get_codes(wire.format, wire.codes + b * wire.format.code_bytes(kSignBlock), codes);
  return get_float(wire.scales + 4 * b);
}

// Writes block b of a sum: `scale` and the sums of the codes `first` and `second`.
void put_sum(const SignBlocks& blocks, std::size_t b, float scale, const Codes& first,
             const Codes& second, SignOut out) {
  Codes codes;
  for (std::size_t e = 0; e < kSignBlock; ++e) {
    codes[e] = first[e] + second[e];
    if (out.format.voted) {
      codes[e] = majority_digit(blocks, b, e, out.format.contributions, codes[e]);
    }
  }
  put_float(poison_unless_finite(scale), out.scales + 4 * b);
  put_codes(out.format, codes, out.codes + b * out.format.code_bytes(kSignBlock));
}

template <auto digits_of>
void decode_add_encode(const SignBlocks& blocks, SignIn wire, const float* values, SignOut out) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    Codes digits;
    const float scale = get_block(wire, b, codes);
    const float own = digits_of(blocks, b, values + b * kSignBlock, digits);
    put_sum(blocks, b, own + scale, codes, digits, out);
  }
}

void merge(const SignBlocks& blocks, SignIn first, SignIn second, SignOut out) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    Codes others;
    const float scale = get_block(first, b, codes);
    const float other = get_block(second, b, others);
    put_sum(blocks, b, scale + other, codes, others, out);
  }
}

template <typename Sink>
void for_each_value(const SignBlocks& blocks, SignIn wire, Sink sink) {
  const auto contributions = static_cast<float>(wire.format.contributions);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    Codes codes;
    const float factor = get_block(wire, b, codes) / contributions;
    for (std::size_t e = 0; e < kSignBlock; ++e) {
      float level = static_cast<float>(codes[e]) * wire.format.step() - contributions;
      if (blocks.majority && !wire.format.voted) {
        const std::uint32_t digit =
            majority_digit(blocks, b, e, wire.format.contributions, codes[e]);
        level = digit != 0 ? contributions : -contributions;
      }
      // Adding zero changes no value but turns -0, as in 0 * -1, into +0.
      sink(b * kSignBlock + e, factor * level + 0.0f);
    }
  }
}

void decode(const SignBlocks& blocks, SignIn wire, float* values) {
  for_each_value(blocks, wire, [=](std::size_t e, float value) { values[e] = value; });
}

void decode_add(const SignBlocks& blocks, SignIn wire, float* values) {
  for_each_value(blocks, wire, [=](std::size_t e, float value) { values[e] += value; });
}

bool valid(const SignFormat& format, const std::byte* codes, std::size_t count) {
  if (format.has_trits()) {
    return std::all_of(codes, codes + format.code_bytes(count), [](std::byte byte) {
      return std::to_integer<std::uint32_t>(byte) <= kMaxTritByte;
    });
  }
  for (std::size_t p = 0; p < packs_of(count); ++p) {
    std::uint32_t pack[kPack];
    unpack_codes(codes + p * pack_bytes(format.width()), format.width(), pack);
    if (*std::max_element(pack, pack + kPack) > format.max_code()) return false;
  }
  return true;
}

constexpr SignKernels kBinary = {encode<binary_digits>, decode_add_encode<binary_digits>};
constexpr SignKernels kTernary = {encode<ternary_digits>, decode_add_encode<ternary_digits>};
constexpr CountKernels kCount = {decode, decode_add, merge, valid};

}  // namespace

const SignKernels& g_binary_reference() { return kBinary; }
const SignKernels& g_ternary_reference() { return kTernary; }
const CountKernels& count_reference() { return kCount; }

}  // namespace nf
