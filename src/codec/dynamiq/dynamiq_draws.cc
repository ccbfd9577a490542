#include "codec/dynamiq/dynamiq_draws.h"

#include <algorithm>
#include <numeric>

namespace nf {

DynamiqDraws::DynamiqDraws(const Slice& slice, std::uint32_t encoder, bool correlated)
    : rounding(slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kRounding),
      group_scale(slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kGroupScale),
      shared(slice.seed, slice.step, slice.parameter, kSharedEncoder, DrawPurpose::kShift) {
  if (correlated) strata = std::min(slice.ranks, kMostStrata);
  index = encoder % strata;
  // A little less than 2^-16 / n, so that even the greatest draw stays below 1.
  slope = 0x1p-16f * ((1.0f - 0x1p-22f) / static_cast<float>(strata));
  const std::uint32_t most = std::clamp(strata - 1, 1u, kMostFactor);
  for (std::uint32_t a = 1; a <= most; ++a) {
    if (std::gcd(a, strata) == 1) factors[factor_count++] = static_cast<std::uint8_t>(a);
  }
}

}  // namespace nf
