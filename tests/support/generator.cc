#include "support/generator.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <string>

namespace nf::test {
namespace {

std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

}  // namespace

Generator::Generator(std::uint64_t seed)
    : seed_(seed + number_from_environment("NF_TEST_SEED", 0)),
      engine_(seed_),
      trace_(__FILE__, __LINE__, "values from seed " + std::to_string(seed_)) {}

double Generator::uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

double Generator::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::vector<float> Generator::normal(std::size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(normal());
  return values;
}

std::vector<float> Generator::mixture(std::size_t count) {
  std::vector<float> values(count);
  double scale = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 256 == 0) {
      scale = below(5) != 0 ? std::exp(-4 + 1.2 * normal()) : std::exp(-16 + 4.6 * normal());
    }
    values[i] = static_cast<float>(scale * normal());
  }
  return values;
}

std::vector<float> Generator::hostile(std::size_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kSpecial[] = {0.0f, -0.0f,     kInfinity,  -kInfinity,      kNan,     -kNan,
                                1.0f, 0x1p-149f, -0x1p-126f, 0x1.fffffep127f, 0x1p126f, 0x1p-100f};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t flavour = below(8);
    const auto constant = static_cast<float>(normal());
    const int exponent = static_cast<int>(below(250)) - 130;
    for (std::size_t left = 1 + below(400); left > 0 && i < count; --left, ++i) {
      switch (flavour) {
        case 0: values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits())); break;
        case 1: values[i] = below(2) != 0 ? 0.0f : -0.0f; break;
        case 2: values[i] = std::ldexp(static_cast<float>(normal()), -135); break;
        case 3: values[i] = std::ldexp(static_cast<float>(normal()), 124); break;
        case 4: values[i] = constant; break;
        case 5: values[i] = std::ldexp(static_cast<float>(normal()), exponent); break;
        case 6: values[i] = below(40) == 0 ? kSpecial[below(std::size(kSpecial))] : constant; break;
        default: values[i] = static_cast<float>(static_cast<int>(below(7)) - 3); break;
      }
    }
  }
  return values;
}

std::vector<float> Generator::hostile_finite(std::size_t count) {
  std::vector<float> values = hostile(count);
  for (float& value : values) {
    if (!(std::abs(value) <= 0x1p120f)) value = static_cast<float>(normal());
  }
  return values;
}

std::vector<std::byte> Generator::bytes(std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::byte& byte : out) byte = static_cast<std::byte>(bits());
  return out;
}

int rounds_of(int rounds) {
  return rounds * static_cast<int>(number_from_environment("NF_TEST_ROUNDS", 1));
}

}  // namespace nf::test
