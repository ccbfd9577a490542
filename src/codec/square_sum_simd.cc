// Vector form of square_sum.h.
#include "codec/square_sum_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/square_sum_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

using DD = hn::ScalableTag<double>;
using VD = hn::Vec<DD>;

constexpr std::size_t kDoubles = hn::MaxLanes(DD());
constexpr std::size_t kSums = kSquareLanes / kDoubles;  // vectors

double sum_squares(const float* values, std::size_t count) {
  const DD d;
  const hn::Rebind<float, DD> narrow;
  VD sums[kSums];
  for (std::size_t v = 0; v < kSums; ++v) sums[v] = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += kSquareLanes) {
    prefetch_ahead(values + i);
    prefetch_ahead(values + i + 16);
    for (std::size_t v = 0; v < kSums; ++v) {
      const VD x = hn::PromoteTo(d, hn::LoadU(narrow, values + i + v * kDoubles));
      sums[v] = hn::MulAdd(x, x, sums[v]);  // the product is exact: fused and unfused are equal
    }
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  double lanes[kDoubles];
  hn::StoreU(sums[0], d, lanes);
  for (std::size_t half = kDoubles / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

constexpr SquareSum kSumSquares = sum_squares;

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

SquareSum square_sum_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kSumSquares); }

}  // namespace nf
#endif
