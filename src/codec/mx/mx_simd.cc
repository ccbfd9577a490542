// Vector form of the MX codecs. To round an element, add a power of two that is so large that only
// the bits of the result fit into the mantissa. No operation meets a denormal number.
#include "codec/mx/mx_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/mx/mx_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/reduce-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

constexpr std::uint32_t kExponentMask = 0x7f800000u;
constexpr std::uint32_t kSignBit = 0x80000000u;
constexpr std::uint32_t kNan = 0x7fc00000u;

constexpr std::uint32_t exponent_bits_of(int exponent) {
  return static_cast<std::uint32_t>(exponent + 127) << 23;
}

HWY_INLINE VF power_of_two(unsigned field) { return from_bits(set_u(field << 23)); }

// The codes of x / 2^k, given 2^-k. Bits from 18 on are undefined.
//
// In the binade of exponent E, elements are multiples of 2^(E - M), where M is the number of
// mantissa bits. That is the unit in the last place of 2^(E - M + 23). After adding that number,
// the low bits are the nearest multiple n. Codes have no gap between binades: the code is n plus
// 2^M for every binade above the smallest. Subnormal elements are multiples of the unit of the
// smallest binade.
template <MxFormat kFormat>
HWY_INLINE VU encode_elements(VF x, VF inverse) {
  constexpr int kDropped = 23 - static_cast<int>(kFormat.mantissa_bits);
  constexpr std::uint32_t kMinBinade = exponent_bits_of(1 - kFormat.bias());
  constexpr std::uint32_t kMax =
      (kFormat.max_code() << kDropped) + exponent_bits_of(-kFormat.bias());
  // Values up to half the smallest element, ties included, become zero, and zero has no sign.
  constexpr std::uint32_t kMaxZero =
      exponent_bits_of(-kFormat.bias() - static_cast<int>(kFormat.mantissa_bits));
  // Subtracts the binades up to the smallest from the code, modulo 2^18. It must be even because
  // the addition rounds ties to even.
  constexpr std::uint32_t kFirstBinades = (1u << 18) - (kMinBinade >> kDropped);
  static_assert(kFirstBinades % 2 == 0);
  constexpr std::uint32_t kToMagic = (static_cast<std::uint32_t>(kDropped) << 23) + kFirstBinades;

  const VF scaled = hn::Mul(x, inverse);
  // An integer minimum: values above the range and NaN saturate.
  const VU y = hn::Min(magnitude(scaled), set_u(kMax));
  const VU binade = hn::Max(hn::And(y, set_u(kExponentMask)), set_u(kMinBinade));
  const VF magic = from_bits(hn::Add(binade, set_u(kToMagic)));
  const VU multiple = bits(hn::Add(from_bits(y), magic));
  const VU code = hn::Add(multiple, hn::ShiftRight<kDropped>(binade));

  // As unsigned numbers, negative values are above all positive values and ordered by magnitude.
  const auto is_signed = hn::Gt(bits(scaled), set_u(kSignBit | kMaxZero));
  const VU signed_code = hn::IfThenElse(is_signed, hn::Or(code, set_u(kFormat.sign())), code);
  if constexpr (!kFormat.has_nan) return signed_code;
  const VU exponent = set_u(kExponentMask);
  const auto is_nan = hn::Eq(hn::And(bits(x), exponent), exponent);
  return hn::IfThenElse(is_nan, set_u(kFormat.sign() - 1), signed_code);
}

// The scale of a block, prepared for decode_elements().
struct DecodeScale {
  VF scale;    // 2^k
  VF twice;    // 2^(k + 1)
  VF leading;  // minus the leading one of the smallest binade

  template <MxFormat kFormat>
  static HWY_INLINE DecodeScale of(unsigned field) {
    const VF scale = power_of_two(field);
    const VF leading = from_bits(set_u(kSignBit | exponent_bits_of(1 - kFormat.bias())));
    return {scale, hn::Add(scale, scale), hn::Mul(scale, leading)};
  }
};

// The values of codes below 2^width. Let x be the FP32 number with the exponent and mantissa of the
// element. The value of a normal element is x. The value of a subnormal element is
// 2 x - 2^(1 - bias), because x has an extra leading one and its binade is too low by one. The
// correct value is the smaller of the two.
template <MxFormat kFormat>
HWY_INLINE VF decode_elements(VU code, const DecodeScale& by) {
  constexpr int kDropped = 23 - static_cast<int>(kFormat.mantissa_bits);
  const VU m = hn::And(code, set_u(kFormat.sign() - 1));
  const VF x =
      from_bits(hn::Add(hn::ShiftLeft<kDropped>(m), set_u(exponent_bits_of(-kFormat.bias()))));
  const VF size = hn::Min(hn::Mul(x, by.scale), hn::MulAdd(x, by.twice, by.leading));
  const VU sign = hn::ShiftLeft<32 - static_cast<int>(kFormat.width())>(code);
  const VF value = from_bits(and_or(sign, set_u(kSignBit), bits(size)));
  if constexpr (!kFormat.has_nan) return value;
  const auto is_nan = hn::RebindMask(DF(), hn::Eq(m, set_u(kFormat.sign() - 1)));
  return hn::IfThenElse(is_nan, from_bits(set_u(kNan)), value);
}

template <MxFormat kFormat>
HWY_INLINE void decode_block(const MxBlocks& blocks, unsigned exponent, const std::byte* wire,
                             VF (&values)[kPackVectors]) {
  if (HWY_LIKELY(blocks.has_codes(exponent))) {
    const auto scale = DecodeScale::of<kFormat>(blocks.scale_field(exponent, kFormat));
    VU codes[kPackVectors];
    unpack_codes(reinterpret_cast<const std::uint8_t*>(wire), kFormat.width(), codes);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      values[v] = decode_elements<kFormat>(codes[v], scale);
    }
  } else {
    const VF all = from_bits(set_u(blocks.is_zero(exponent) ? 0 : kNan));
    for (VF& value : values) value = all;
  }
}

template <MxFormat kFormat>
HWY_INLINE void encode_block(const MxBlocks& blocks, unsigned exponent,
                             const VF (&values)[kPackVectors], std::byte* wire) {
  if (HWY_LIKELY(blocks.has_codes(exponent))) {
    const VF inverse = power_of_two(254 - blocks.scale_field(exponent, kFormat));
    VU codes[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      codes[v] = encode_elements<kFormat>(values[v], inverse);
    }
    pack_codes(codes, kFormat.width(), reinterpret_cast<std::uint8_t*>(wire));
  } else {
    std::memset(wire, 0, pack_bytes(kFormat.width()));
  }
}

HWY_INLINE void load_block(const float* from, VF (&values)[kPackVectors]) {
  for (std::size_t v = 0; v < kPackVectors; ++v) {
    values[v] = load(from + v * kLanes);
    if (v * kLanes % 16 == 0) prefetch_ahead(from + v * kLanes);
  }
}

// Eight blocks at a time, so that their peaks are reduced in parallel.
void statistics(const float* values, std::size_t blocks, std::byte* out) {
  constexpr std::size_t kRows = 8;
  constexpr std::size_t kRowVectors = 16 / kLanes;
  std::size_t b = 0;
  for (; b + kRows <= blocks; b += kRows) {
    VU peaks[kRows][kRowVectors];
    for (std::size_t r = 0; r < kRows; ++r) {
      VF x[kPackVectors];
      load_block(values + (b + r) * kMxBlock, x);
      for (std::size_t v = 0; v < kRowVectors; ++v) {
        peaks[r][v] = hn::Max(magnitude(x[v]), magnitude(x[v + kRowVectors]));
      }
    }
    std::uint32_t peak[kRows];
    reduce8(MaxOp(), peaks, peak);
    for (std::size_t r = 0; r < kRows; ++r) out[b + r] = static_cast<std::byte>(peak[r] >> 23);
  }
  mx_reference(kE4m3).statistics(values + b * kMxBlock, blocks - b, out + b);
}

template <MxFormat kFormat>
void encode(MxBlocks blocks, const float* values, std::byte* wire) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    VF x[kPackVectors];
    load_block(values + b * kMxBlock, x);
    encode_block<kFormat>(blocks, blocks.exponent_of(b), x, wire + b * pack_bytes(kFormat.width()));
  }
}

template <MxFormat kFormat, bool kAdd, bool kStream>
void decode_to(MxBlocks blocks, const std::byte* wire, float* values) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    VF decoded[kPackVectors];
    decode_block<kFormat>(blocks, blocks.exponent_of(b), wire + b * pack_bytes(kFormat.width()),
                          decoded);
    float* to = values + b * kMxBlock;
    if (kAdd) {
      VF x[kPackVectors];
      load_block(to, x);
      for (std::size_t v = 0; v < kPackVectors; ++v) decoded[v] = hn::Add(x[v], decoded[v]);
    }
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      if (kStream) {
        hn::Stream(decoded[v], DF(), to + v * kLanes);
      } else {
        hn::StoreU(decoded[v], DF(), to + v * kLanes);
      }
    }
  }
  if (kStream) hwy::FlushStream();
}

template <MxFormat kFormat>
void decode(MxBlocks blocks, const std::byte* wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (aligned && streams(blocks.count * kMxBlock * sizeof(float))) {
    decode_to<kFormat, false, true>(blocks, wire, values);
  } else {
    decode_to<kFormat, false, false>(blocks, wire, values);
  }
}

template <MxFormat kFormat>
void decode_add(MxBlocks blocks, const std::byte* wire, float* values) {
  decode_to<kFormat, true, false>(blocks, wire, values);
}

template <MxFormat kFormat>
void decode_add_encode(MxBlocks blocks, const std::byte* wire, const float* values,
                       std::byte* out) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const std::size_t at = b * pack_bytes(kFormat.width());
    const unsigned exponent = blocks.exponent_of(b);
    VF x[kPackVectors];
    load_block(values + b * kMxBlock, x);
    VF sum[kPackVectors];
    decode_block<kFormat>(blocks, exponent, wire + at, sum);
    for (std::size_t v = 0; v < kPackVectors; ++v) sum[v] = hn::Add(x[v], sum[v]);
    encode_block<kFormat>(blocks, exponent, sum, out + at);
  }
}

constexpr MxKernels kMxfp8 = {statistics, encode<kE4m3>, decode<kE4m3>, decode_add<kE4m3>,
                              decode_add_encode<kE4m3>};
constexpr MxKernels kMxfp6 = {statistics, encode<kE3m2>, decode<kE3m2>, decode_add<kE3m2>,
                              decode_add_encode<kE3m2>};
constexpr MxKernels kMxfp4 = {statistics, encode<kE2m1>, decode<kE2m1>, decode_add<kE2m1>,
                              decode_add_encode<kE2m1>};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const MxKernels& mx_simd(Isa isa, const MxFormat& format) {
  switch (format.width()) {
    case kE4m3.width(): return *NF_SELECT_TABLE(isa, kMxfp8);
    case kE3m2.width(): return *NF_SELECT_TABLE(isa, kMxfp6);
    default: return *NF_SELECT_TABLE(isa, kMxfp4);
  }
}

}  // namespace nf
#endif
