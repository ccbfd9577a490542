// The values that dynamiq rounds to.
//
// Magnitude r stands for level[r], from level[0] = 0 to level[top] = top. With its sign that makes
// 2 top + 1 values, numbered from 0 upwards: value k is -level[top - k] or level[k - top].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nf {

struct DynamiqLattice {
  static constexpr std::size_t kMost = 128;
  static constexpr std::size_t kFew = 16;  // as many as fit a vector register

  unsigned top = 0;       // the greatest magnitude, 2^(width - 1) - 1
  float inverse_top = 0;  // 1 / top
  std::array<float, kMost> level{};

  // For widths up to 4. By number: the least value of the step from number k to k + 1 and the
  // step's width, the code of sign and magnitude. By code: the value.
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

// Of width 2, 4 or 8. `uniform` levels are 0, 1, 2, ...; the others lie wider apart the greater
// they are, from gap to gap by a factor of 1.08 at 4 bits, 1.0128 at 8.
inline const DynamiqLattice& dynamiq_lattice(unsigned width, bool uniform) {
  return kDynamiqLattices[uniform ? 1 : 0][width / 4];
}

}  // namespace nf
