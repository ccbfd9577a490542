#include "codec/dynamiq/dynamiq_lattice.h"

#include <limits>

namespace nf {
namespace {

// 1 + 2 epsilon^2, with epsilon 0.20 at 4 bits and 0.08 at 8.
constexpr double kGrowth4 = 1.08;
constexpr double kGrowth8 = 1.0128;

// (growth^r - 1) / (growth - 1), by repeated multiplication in double precision, so that the result
// does not depend on the maths library.
constexpr double sum_of_powers(double growth, unsigned r) {
  double sum = 0;
  double power = 1;
  for (unsigned i = 0; i < r; ++i) {
    sum += power;
    power *= growth;
  }
  return sum;
}

constexpr double power_of(double growth, unsigned r) {
  double power = 1;
  for (unsigned i = 0; i < r; ++i) power *= growth;
  return power;
}

constexpr DynamiqLattice with_top(unsigned width) {
  DynamiqLattice lattice;
  lattice.top = (1u << (width - 1)) - 1;
  lattice.inverse_top = 1.0f / static_cast<float>(lattice.top);
  return lattice;
}

constexpr DynamiqLattice make_small(unsigned width, double growth) {
  DynamiqLattice lattice = with_top(width);
  const unsigned top = lattice.top;
  for (unsigned r = 0; r <= top; ++r) {
    const float level =
        static_cast<float>(top * sum_of_powers(growth, r) / sum_of_powers(growth, top));
    lattice.level[r] = level;
    lattice.code[top + r] = r;
    lattice.code[top - r] = r == 0 ? 0 : r + top + 1;
    lattice.code_value[r] = level;
    lattice.code_value[r + top + 1] = -level;
  }
  for (unsigned r = 0; r < top; ++r) {
    lattice.low[top + r] = lattice.level[r];
    lattice.low[top - 1 - r] = -lattice.level[r + 1];
    const float gap = lattice.level[r + 1] - lattice.level[r];
    lattice.gap[top + r] = gap;
    lattice.gap[top - 1 - r] = gap;
  }
  // There is no step up from the largest value and always one to the smallest.
  lattice.low[2 * top] = std::numeric_limits<float>::infinity();
  lattice.low[2 * top + 1] = -std::numeric_limits<float>::infinity();
  return lattice;
}

constexpr DynamiqLattice make_eight(double growth) {
  DynamiqLattice lattice = with_top(8);
  if (growth == 1) {
    for (unsigned r = 0; r <= lattice.top; ++r) lattice.level[r] = static_cast<float>(r);
    return lattice;
  }
  // Slightly less than 127, so that the last level rounds to 127.
  const double span = (127 - 0x1p-18) / (power_of(growth, 127) - 1);
  for (unsigned i = 0; i < DynamiqLattice::kFew; ++i) {
    lattice.coarse[i] = static_cast<float>(span * power_of(growth, 16 * i));
    lattice.fine[i] = static_cast<float>(power_of(growth, i));
  }
  for (unsigned r = 0; r <= lattice.top; ++r) {
    // In double precision only the last operation rounds, as in a fused multiply-add.
    const double product = static_cast<double>(lattice.coarse[r / 16]) * lattice.fine[r % 16];
    lattice.level[r] = static_cast<float>(product - lattice.coarse[0]);
  }
  return lattice;
}

}  // namespace

constexpr DynamiqLattice kDynamiqLattices[2][3] = {
    {make_small(2, 1), make_small(4, kGrowth4), make_eight(kGrowth8)},
    {make_small(2, 1), make_small(4, 1), make_eight(1)}};

static_assert(kDynamiqLattices[0][1].level[7] == 7 && kDynamiqLattices[0][2].level[127] == 127);

}  // namespace nf
