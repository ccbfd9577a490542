// Which values of a region a step looks at to learn what its route does to them: one piece of one
// parameter, another one every step. A pure function of the step and the parameters' sizes, so all
// ranks look at the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/tile_map.h"

namespace nf {

class Sampler {
 public:
  static constexpr std::size_t kMaxValues = 65'536;
  // Pieces start at multiples of this: of 5120 and 8192, and so of every codec's granule.
  static constexpr std::size_t kStride = 40'960;

  // `counts` are the sizes of the region's parameters.
  explicit Sampler(std::span<const std::size_t> counts);

  // The piece of a step, of at most kMaxValues. Consecutive steps look at places far apart; each
  // of the pieces() comes again and again, also where only every n-th step looks. Empty where there
  // are no values.
  Piece at(std::uint64_t step) const;
  std::uint32_t pieces() const { return first_piece_.back(); }

 private:
  std::vector<std::size_t> counts_;
  std::vector<std::uint32_t> first_piece_;  // by parameter, and one more at the end
};

}  // namespace nf
