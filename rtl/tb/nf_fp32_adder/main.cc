// Compares the adder with the host's IEEE 754 arithmetic: all pairs of edge cases, then random
// pairs, half of them with similar exponents, which exercise alignment and rounding.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "Vnf_fp32_adder.h"

namespace {

std::uint32_t expected(std::uint32_t a, std::uint32_t b) {
  const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
  return std::isnan(sum) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(sum);
}

class Adder {
 public:
  bool check(std::uint32_t a, std::uint32_t b) {
    top_.a_i = a;
    top_.b_i = b;
    top_.clk_i = 0;
    top_.eval();
    top_.clk_i = 1;
    top_.eval();
    ++count_;
    if (top_.sum_o == expected(a, b)) return true;
    std::printf("FAILED: %08x + %08x = %08x, expected %08x\n", a, b, top_.sum_o, expected(a, b));
    return false;
  }
  std::uint64_t count() const { return count_; }

 private:
  Vnf_fp32_adder top_;
  std::uint64_t count_ = 0;
};

// Both signs of the limits of each range of numbers, and powers of two with their neighbours.
std::vector<std::uint32_t> edge_cases() {
  std::vector<std::uint32_t> values = {0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
  for (std::uint32_t exponent = 0; exponent < 255; exponent += exponent < 30 ? 1 : 9) {
    for (const std::uint32_t fraction : {0u, 1u, 0x400000u, 0x7fffffu}) {
      values.push_back(exponent << 23 | fraction);
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(values[i] | 0x80000000u);
  return values;
}

}  // namespace

int main() {
  constexpr int kRandomPairs = 3'000'000;
  Adder adder;
  const std::vector<std::uint32_t> values = edge_cases();
  for (const std::uint32_t a : values) {
    for (const std::uint32_t b : values) {
      if (!adder.check(a, b)) return 1;
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < kRandomPairs; ++i) {
    const std::uint32_t a = random();
    std::uint32_t b = random();
    if (i % 2 == 0) b = (b & 0x807fffffu) | ((((a >> 23) + random() % 30) & 0xff) << 23);
    if (!adder.check(a, b)) return 1;
  }
  std::printf("ok: %llu sums match the host\n", static_cast<unsigned long long>(adder.count()));
  return 0;
}
