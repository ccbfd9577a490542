// Gradients to measure with: the log-normal mixture that DynamiQ's authors fitted to real ones and
// published (arXiv 2602.08923). Each super-group of 256 values has a magnitude M, drawn from one of
// two log-normal laws; its values are normal with variance M^2 / 256. All ranks share the
// magnitudes, and the values of any two ranks are correlated.
//
// A value is a function of seed, rank and index alone, and of operations that IEEE 754 rounds: it
// is the same on every machine, in whatever order it is asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nf::cli {

struct GradientMixture {
  static constexpr std::uint64_t kSuperGroup = 256;

  std::uint64_t seed = 1;
  double correlation = 0.5;  // of two ranks' values, from 0 to 1
  bool is_gaussian = false;  // every M is 16: all values are N(0, 1)

  // Values first, first + 1, ... of a rank's gradient.
  void fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const;
};

// What the ranks of a mixture have in common, made once: half of the work where many ranks are
// asked for the same values.
class CommonGradients {
 public:
  // Of values 0 to `count`.
  CommonGradients(const GradientMixture& mixture, std::uint64_t count);

  // What mixture.fill() gives. Precondition: the values lie below `count`. Any thread.
  void fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const;

 private:
  const GradientMixture mixture_;
  std::vector<double> shared_;      // by value
  std::vector<double> deviations_;  // by super-group
};

}  // namespace nf::cli
