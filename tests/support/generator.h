// Seeded values for tests, from well-behaved to hostile.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace nf::test {

// A test that fails while a Generator is alive prints its seed. NF_TEST_SEED is added to every
// seed, so that nightly runs use different values.
class Generator {
 public:
  explicit Generator(std::uint64_t seed);

  std::uint64_t bits() { return engine_(); }
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  // In [0, 1).
  double uniform();
  double normal();

  std::vector<float> normal(std::size_t count, float scale = 1);
  // Resembles real gradients: every 256 values have their own scale, over many orders of magnitude.
  std::vector<float> mixture(std::size_t count);
  // Runs of random bits, zeros of both signs, denormals, huge values, constants and outliers.
  std::vector<float> hostile(std::size_t count);
  // The same without NaN, infinities and magnitudes above 2^120.
  std::vector<float> hostile_finite(std::size_t count);
  std::vector<std::byte> bytes(std::size_t count);

 private:
  const std::uint64_t seed_;
  std::mt19937_64 engine_;
  const testing::ScopedTrace trace_;
};

// The number of rounds of a property test: `rounds` times NF_TEST_ROUNDS (default 1).
int rounds_of(int rounds);

}  // namespace nf::test
