// Synthetic gradients for measurements: the log-normal mixture that the authors of DynamiQ fitted
// to real gradients (arXiv 2602.08923). Each super-group of 256 values has a magnitude M, drawn
// from one of two log-normal distributions; its values are normal with variance M^2 / 256. All
// ranks share the magnitudes, and the values of any two ranks are correlated.
//
// A value depends only on seed, rank and index, and is computed with operations that IEEE 754
// rounds exactly: it is the same on every platform and in every order of generation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nf::cli {

struct GradientMixture {
  static constexpr std::uint64_t kSuperGroup = 256;

  std::uint64_t seed = 1;
  double correlation = 0.5;  // between the values of two ranks, from 0 to 1
  bool is_gaussian = false;  // M = 16 everywhere: all values are N(0, 1)

  // Generates the values first, first + 1, ... of a rank's gradient.
  void fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const;
};

// Caches the part of a mixture that all ranks share. It halves the work if many ranks generate the
// same values.
class CommonGradients {
 public:
  // Caches the values [0, count).
  CommonGradients(const GradientMixture& mixture, std::uint64_t count);

  // Same result as mixture.fill(). Precondition: first + values.size() <= count. Thread-safe.
  void fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const;

 private:
  const GradientMixture mixture_;
  std::vector<double> shared_;      // per value
  std::vector<double> deviations_;  // per super-group
};

}  // namespace nf::cli
