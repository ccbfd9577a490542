// The lattice of values that dynamiq rounds to.
//
// Magnitude r means level[r], from level[0] = 0 to level[top] = top. With signs there are 2 top + 1
// values, numbered in ascending order: value k is -level[top - k] or level[k - top].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nf {

struct DynamiqLattice {
  static constexpr std::size_t kMaxLevels = 128;
  static constexpr std::size_t kFew = 16;  // fits a vector register

  unsigned top = 0;       // the largest magnitude, 2^(width - 1) - 1
  float inverse_top = 0;  // 1 / top
  std::array<float, kMaxLevels> level{};

  // For widths up to 4. By number k: the lower end and the size of the step from k to k + 1, and
  // the code (sign and magnitude). By code: the value.
  alignas(64) std::array<float, kFew> low{};
  alignas(64) std::array<float, kFew> gap{};
  alignas(64) std::array<std::uint32_t, kFew> code{};
  alignas(64) std::array<float, kFew> code_value{};

  // For width 8: level[16 a + b] = fma(coarse[a], fine[b], -coarse[0]).
  alignas(64) std::array<float, kFew> coarse{};
  alignas(64) std::array<float, kFew> fine{};
};

// By spacing (growing, uniform) and by width (2, 4, 8).
extern const DynamiqLattice kDynamiqLattices[2][3];

// The lattice of width 2, 4 or 8. Uniform levels are 0, 1, 2, ... The gaps between other levels
// grow by a factor of 1.08 at 4 bits and 1.0128 at 8 bits.
inline const DynamiqLattice& dynamiq_lattice(unsigned width, bool uniform) {
  return kDynamiqLattices[uniform ? 1 : 0][width / 4];
}

}  // namespace nf
