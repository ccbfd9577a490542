// What the ranks of `nf bench all_reduce` sum, and what the sum should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "nf/support/gradients.h"

namespace nf::cli {

// A gradient of the published mixture. Fewer values of it are its beginning. Types are FP32 and
// BF16, whose values are the FP32 ones rounded.
class BenchGradient {
 public:
  // The first `count` values of one of `ranks` ranks.
  BenchGradient(std::uint32_t rank, std::uint32_t ranks, std::size_t count);

  // Precondition: out.count <= count.
  void put(Values out) const;

  // ||sum - exact||^2 / ||exact||^2, the exact sum being that of all ranks' values of this type,
  // which the first call makes. Precondition: sum.count <= count.
  double vnmse(ConstValues sum);

 private:
  void make_exact(DataType type);

  const GradientMixture mixture_;
  const std::uint32_t ranks_;
  std::vector<float> own_;
  std::vector<double> exact_;
  DataType exact_type_ = DataType::kFloat32;
};

// Whole numbers from -3 to 3, by rank and index: any order of additions sums those of 85 ranks
// without rounding, in BF16 too.
void put_integers(std::uint32_t rank, Values out);
// The elements that are not the sum of all ranks' numbers.
std::uint64_t count_wrong_integers(std::uint32_t ranks, ConstValues sum);

}  // namespace nf::cli
