#include "runtime/sampler.h"

#include <algorithm>

#include "base/random.h"

namespace nf {
namespace {

// A remainder that is too small for a piece extends the previous one.
std::uint32_t pieces_of(std::size_t count) {
  if (count == 0) return 0;
  const std::size_t whole = count / Sampler::kStride;
  const std::size_t rest = count % Sampler::kStride;
  const bool is_own = rest > Sampler::kMaxValues - Sampler::kStride;
  return static_cast<std::uint32_t>(std::max<std::size_t>(whole + (is_own ? 1 : 0), 1));
}

}  // namespace

Sampler::Sampler(std::span<const std::size_t> counts)
    : counts_(counts.begin(), counts.end()), first_piece_(1, 0) {
  for (const std::size_t count : counts_) {
    first_piece_.push_back(first_piece_.back() + pieces_of(count));
  }
}

Piece Sampler::at(std::uint64_t step) const {
  // The fractional parts of multiples of the golden ratio never come close to a period, not even
  // for every n-th step.
  const std::uint64_t fraction = (step * kGolden64) >> 32;
  const auto piece = static_cast<std::uint32_t>(fraction * pieces() >> 32);
  const auto after = std::upper_bound(first_piece_.begin(), first_piece_.end(), piece);
  if (after == first_piece_.end()) return {};
  const auto parameter = static_cast<std::size_t>(after - first_piece_.begin()) - 1;
  const std::size_t first = (piece - first_piece_[parameter]) * kStride;
  const bool is_last = piece + 1 == first_piece_[parameter + 1];
  return {.parameter = parameter,
          .first = first,
          .count = is_last ? counts_[parameter] - first : kStride};
}

}  // namespace nf
