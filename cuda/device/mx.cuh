// Elements of the MX formats on a device (codec/mx/mx_format.h, docs/codecs/mxfp.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/float16.h"
#include "codec/mx/mx_format.h"

namespace nf::device {

// The scales of an all-reduce.
struct MxScales {
  unsigned headroom = 0;
  unsigned max_exponent = kMxMaxExponent;
  float stretch = 1;  // factor of every scale; not 1 only with `published`
};

// The scale of one block, from the combined exponent of its peak.
struct MxScale {
  bool is_zero = true;
  bool is_poisoned = false;
  unsigned field = 0;  // FP32 exponent of the scale before any stretch
  float scale = 1;

  __device__ bool has_codes() const { return !is_zero && !is_poisoned; }
};

__device__ inline MxScale mx_scale(MxFormat format, const MxScales& scales, unsigned exponent) {
  const unsigned field = exponent + scales.headroom - static_cast<unsigned>(format.max_exponent());
  const bool is_zero = exponent < kMxMinExponent;
  const bool is_poisoned = exponent > scales.max_exponent;
  return {is_zero, is_poisoned, field, __uint_as_float(field << 23) * scales.stretch};
}

// Powers of two as FP32 and FP64 numbers.
constexpr std::uint32_t power_bits(int exponent) {
  return static_cast<std::uint32_t>(exponent + 127) << 23;
}
constexpr std::uint64_t power_bits64(int exponent) {
  return static_cast<std::uint64_t>(exponent + 1023) << 52;
}

// The code of the magnitude nearest to y >= 0, ties to even. Normal elements are rounded in their
// bits; subnormal elements by adding a number whose last bit is one element.
__device__ inline std::uint32_t nearest_code(MxFormat format, float y) {
  const unsigned dropped = 23 - format.mantissa_bits;
  const int min_exponent = 1 - format.bias();
  const std::uint32_t bits = __float_as_uint(y);
  const std::uint32_t rounded = bits + ((1u << (dropped - 1)) - 1) + (bits >> dropped & 1);
  const std::uint32_t normal =
      (rounded >> dropped) -
      (static_cast<std::uint32_t>(127 - format.bias()) << format.mantissa_bits);
  const std::uint32_t magic = power_bits(min_exponent + static_cast<int>(dropped));
  const std::uint32_t small = __float_as_uint(y + __uint_as_float(magic)) - magic;
  return min(bits < power_bits(min_exponent) ? small : normal, format.max_code());
}

// The same for quotients that are not exact in FP32.
__device__ inline std::uint32_t nearest_code(MxFormat format, double y) {
  const unsigned dropped = 52 - format.mantissa_bits;
  const int min_exponent = 1 - format.bias();
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(y));
  const std::uint64_t rounded =
      bits + ((std::uint64_t{1} << (dropped - 1)) - 1) + (bits >> dropped & 1);
  const std::uint64_t normal =
      (rounded >> dropped) -
      (static_cast<std::uint64_t>(1023 - format.bias()) << format.mantissa_bits);
  const std::uint64_t magic = power_bits64(min_exponent + static_cast<int>(dropped));
  const std::uint64_t small = static_cast<std::uint64_t>(__double_as_longlong(
                                  y + __longlong_as_double(static_cast<long long>(magic)))) -
                              magic;
  const std::uint64_t code = bits < power_bits64(min_exponent) ? small : normal;
  return code < format.max_code() ? static_cast<std::uint32_t>(code) : format.max_code();
}

// The code of x in units of the scale. If the scale is `stretched`, the quotient is in FP64.
__device__ inline std::uint32_t encode_element(MxFormat format, const MxScale& scale,
                                               bool stretched, float x) {
  std::uint32_t code = format.max_code();
  if (isfinite(x)) {
    // The reciprocal of a power of two is a power of two: the product is exact, or so small that
    // its code is 0.
    code = stretched ? nearest_code(format, static_cast<double>(fabsf(x)) / scale.scale)
                     : nearest_code(format, fabsf(x) * __uint_as_float((254 - scale.field) << 23));
  } else if (format.has_nan) {
    return format.sign() - 1;
  }
  return code != 0 && __float_as_uint(x) >> 31 != 0 ? code | format.sign() : code;
}

__device__ inline float decode_element(MxFormat format, const MxScale& scale, std::uint32_t code) {
  const std::uint32_t magnitude = code & (format.sign() - 1);
  // Read as FP32 bits, the magnitude is too small by a power of two, subnormal or not.
  const float element = __uint_as_float(magnitude << (23 - format.mantissa_bits)) *
                        __uint_as_float(power_bits(127 - format.bias()));
  const std::uint32_t sign = (code & format.sign()) != 0 ? 0x80000000u : 0;
  const float value = __uint_as_float(__float_as_uint(element * scale.scale) | sign);
  return magnitude > format.max_code() ? __uint_as_float(0x7fc00000u) : value;
}

}  // namespace nf::device
