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

namespace nf::cli {

struct GradientMixture {
  static constexpr std::uint64_t kSuperGroup = 256;

  std::uint64_t seed = 1;
  double correlation = 0.5;  // of two ranks' values, from 0 to 1

  // Values first, first + 1, ... of a rank's gradient. Precondition: first is a multiple of
  // kSuperGroup.
  void fill(std::uint32_t rank, std::uint64_t first, std::span<float> values) const;
};

}  // namespace nf::cli
