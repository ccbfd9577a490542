#include "codec/dynamiq/dynamiq_draws.h"

#include <algorithm>
#include <numeric>

namespace nf {
namespace {

// Fractions of n, in 65536ths, whose first multiples are spread evenly over n, so that consecutive
// ranks of a ring round differently. (They are numbers with small terms in their continued
// fractions: all 1; all 2; alternating 1 and 2; all 3.)
constexpr std::uint32_t kShares[] = {40503, 27146, 47976, 19843};

}  // namespace

DynamiqDraws::DynamiqDraws(const Slice& slice, std::uint32_t encoder, bool correlated)
    : rounding(slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kRounding),
      group_scale(slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kGroupScale),
      shared(slice.seed, slice.step, slice.parameter, kSharedEncoder, DrawPurpose::kShift) {
  if (correlated) strata = std::min(slice.ranks, kMaxStrata);
  index = encoder % strata;
  // Slightly less than 2^-16 / n, so that the largest draw is below 1.
  slope = 0x1p-16f * ((1.0f - 0x1p-22f) / static_cast<float>(strata));
  for (std::size_t k = 0; k < kFactors; k += 2) {
    std::uint32_t a = std::max(1u, strata * kShares[k / 2] >> 16);
    while (std::gcd(a, strata) != 1) ++a;  // stops at n - 1 at the latest
    factors[k] = a;
    factors[k + 1] = strata - a;
  }
}

}  // namespace nf
