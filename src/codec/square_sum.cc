// The scalar reference of square_sum.h, and the selection of the form.
#include "codec/square_sum.h"

#include "codec/square_sum_simd.h"

namespace nf {
namespace {

double reference(const float* values, std::size_t count) {
  double sums[kSquareLanes] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[i];
    sums[i % kSquareLanes] += value * value;
  }
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

SquareSum square_sum(Isa isa) { return isa == Isa::kScalar ? reference : square_sum_simd(isa); }

}  // namespace nf
