// Selects the values of a region that are sampled in a step to measure the error of its route: one
// piece of one parameter, a different one in each step. A pure function of the step and the sizes
// of the parameters, so all ranks sample the same values.
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
  // Pieces start at multiples of this. A multiple of 5120 and 8192, and so of every codec's
  // granule.
  static constexpr std::size_t kStride = 40'960;

  // `counts` are the sizes of the region's parameters.
  explicit Sampler(std::span<const std::size_t> counts);

  // The piece of a step, of at most kMaxValues. Consecutive steps sample distant pieces, and all
  // pieces() recur, even if only every n-th step samples. Empty if there are no values.
  Piece at(std::uint64_t step) const;
  std::uint32_t pieces() const { return first_piece_.back(); }

 private:
  std::vector<std::size_t> counts_;
  std::vector<std::uint32_t> first_piece_;  // by parameter, plus the end
};

}  // namespace nf
