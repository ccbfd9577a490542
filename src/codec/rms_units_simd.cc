// Vector form of rms_units.h. The scalar reference processes the rest after the last whole vector.
#include "codec/rms_units_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rms_units_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

using D16 = hn::Rebind<std::uint16_t, DU>;

constexpr std::size_t kSumVectors = kRmsLanes / kLanes;

HWY_INLINE VF load_squares(const std::uint16_t* from) {
  return from_bits(hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(D16(), from))));
}

float sum_squares(const std::uint16_t* squares, std::size_t count) {
  VF sums[kSumVectors];
  for (VF& one : sums) one = hn::Zero(DF());
  const std::size_t whole = count / kRmsLanes * kRmsLanes;
  for (std::size_t i = 0; i < whole; i += kRmsLanes) {
    for (std::size_t v = 0; v < kSumVectors; ++v) {
      sums[v] = hn::Add(sums[v], load_squares(squares + i + v * kLanes));
    }
  }
  float lanes[kRmsLanes];
  for (std::size_t v = 0; v < kSumVectors; ++v) hn::StoreU(sums[v], DF(), lanes + v * kLanes);
  for (std::size_t i = whole; i < count; ++i) {
    lanes[i - whole] += bfloat16_to_float(squares[i]);
  }
  for (std::size_t half = kRmsLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Calls exponent(half of the biased exponent of the square) for the biased exponent of the factor.
template <typename Exponent>
HWY_INLINE std::size_t scale(const std::uint16_t* squares, float floor, std::size_t count,
                             float* values, Exponent exponent) {
  const VF least = set(floor);
  const VF most = set(kMostSquare);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    prefetch_ahead(values + i);
    prefetch_ahead(squares + i);
    const VF square = hn::Min(hn::Max(load_squares(squares + i), least), most);
    const VF factor = from_bits(hn::ShiftLeft<23>(exponent(hn::ShiftRight<24>(bits(square)))));
    hn::StoreU(hn::Mul(load(values + i), factor), DF(), values + i);
  }
  return i;
}

void multiply(const std::uint16_t* squares, float floor, std::size_t count, float* values) {
  const std::size_t done =
      scale(squares, floor, count, values, [](VU half) { return hn::Sub(set_u(190), half); });
  rms_units_reference().multiply(squares + done, floor, count - done, values + done);
}

void divide(const std::uint16_t* squares, float floor, std::size_t count, float* values) {
  const std::size_t done =
      scale(squares, floor, count, values, [](VU half) { return hn::Add(set_u(64), half); });
  rms_units_reference().divide(squares + done, floor, count - done, values + done);
}

void update(const float* values, float factor, float share, const std::uint16_t* from,
            std::size_t count, std::uint16_t* to) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    prefetch_ahead(values + i);
    prefetch_ahead(from + i);
    const VF value = hn::Mul(load(values + i), set(factor));
    const VF mean = load_squares(from + i);
    const VF change = hn::Mul(hn::Sub(hn::Mul(value, value), mean), set(share));
    const VU next = bits(hn::Min(hn::Add(mean, change), set(kMostSquare)));
    // To nearest, ties to even.
    const VU odd = hn::And(hn::ShiftRight<16>(next), set_u(1));
    const VU rounded = hn::ShiftRight<16>(hn::Add(next, hn::Add(odd, set_u(0x7fff))));
    hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(DI(), rounded)), D16(), to + i);
  }
  rms_units_reference().update(values + i, factor, share, from + i, count - i, to + i);
}

constexpr RmsUnits kUnits = {sum_squares, multiply, divide, update};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const RmsUnits& rms_units_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kUnits); }

}  // namespace nf
#endif
