// The scalar reference of rms_units.h, and the selection of the form.
#include "codec/rms_units.h"

#include <algorithm>
#include <bit>

#include "base/float16.h"
#include "codec/rms_units_simd.h"

namespace nf {
namespace {

float sum(const std::uint16_t* squares, std::size_t count) {
  float sums[kRmsLanes] = {};
  for (std::size_t i = 0; i < count; ++i) sums[i % kRmsLanes] += bfloat16_to_float(squares[i]);
  for (std::size_t half = kRmsLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// With square = m 2^k and m in [1, 2), the power of two nearest to 1 / sqrt(square) is 2^-n for
// k = 2 n - 1 and k = 2 n. The biased exponent is k + 127, and half of it, rounded down, n + 63.
std::uint32_t half_exponent(std::uint16_t square, float floor) {
  const float bounded = std::min(std::max(bfloat16_to_float(square), floor), kMostSquare);
  return std::bit_cast<std::uint32_t>(bounded) >> 24;
}

void multiply(const std::uint16_t* squares, float floor, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= std::bit_cast<float>((190 - half_exponent(squares[i], floor)) << 23);
  }
}

void divide(const std::uint16_t* squares, float floor, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= std::bit_cast<float>((64 + half_exponent(squares[i], floor)) << 23);
  }
}

void update(const float* values, float factor, float share, const std::uint16_t* from,
            std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i] * factor;
    const float mean = bfloat16_to_float(from[i]);
    to[i] = float_to_bfloat16(std::min(mean + (value * value - mean) * share, kMostSquare));
  }
}

constexpr RmsUnits kReference = {sum, multiply, divide, update};

}  // namespace

const RmsUnits& rms_units_reference() { return kReference; }

const RmsUnits& rms_units(Isa isa) {
  return isa == Isa::kScalar ? rms_units_reference() : rms_units_simd(isa);
}

}  // namespace nf
