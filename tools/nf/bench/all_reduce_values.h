// The values that the ranks of `nf bench all_reduce` sum, and the expected results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "nf/support/gradients.h"

namespace nf::cli {

// A gradient from GradientMixture. A shorter gradient is a prefix of a longer one. Types are FP32
// and BF16; the BF16 values are the rounded FP32 values.
class BenchGradient {
 public:
  // The first `count` values of one of `ranks` ranks.
  BenchGradient(std::uint32_t rank, std::uint32_t ranks, std::size_t count);

  // Precondition: out.count <= count.
  void put(Values out) const;

  // ||sum - exact||^2 / ||exact||^2, where `exact` is the sum over all ranks of the values of this
  // type. The first call computes it. Precondition: sum.count <= count.
  double vnmse(ConstValues sum);

 private:
  void compute_exact(DataType type);

  const GradientMixture mixture_;
  const std::uint32_t ranks_;
  std::vector<float> own_;
  std::vector<double> exact_;
  DataType exact_type_ = DataType::kFloat32;
};

// Integers from -3 to 3 that depend on rank and index. Up to 85 ranks, sums in any order are exact,
// in BF16 too.
void fill_integers(std::uint32_t rank, Values out);
// The number of elements that are not the exact sum over all ranks.
std::uint64_t count_wrong_integers(std::uint32_t ranks, ConstValues sum);

}  // namespace nf::cli
