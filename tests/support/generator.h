// Seeded values for tests, from well-behaved to hostile.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace nf::test {

// A failure while a Generator lives prints its seed. NF_TEST_SEED is added to every seed, so that a
// nightly run sees other values than the last one.
class Generator {
 public:
  explicit Generator(std::uint64_t seed);

  std::uint64_t bits() { return engine_(); }
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  // In [0, 1).
  double uniform();
  double normal();

  std::vector<float> normal(std::size_t count, float scale = 1);
  // Like real gradients: every 256 values have a scale of their own, over many orders of magnitude.
  std::vector<float> mixture(std::size_t count);
  // Runs of random bits, zeros of both signs, denormals, huge values, constants and lone outliers.
  std::vector<float> hostile(std::size_t count);
  // The same without NaN, infinities and magnitudes beyond 2^120.
  std::vector<float> hostile_finite(std::size_t count);
  std::vector<std::byte> bytes(std::size_t count);

 private:
  const std::uint64_t seed_;
  std::mt19937_64 engine_;
  const testing::ScopedTrace trace_;
};

// How many rounds a property test makes: NF_TEST_ROUNDS (1) times `rounds`.
int rounds_of(int rounds);

}  // namespace nf::test
