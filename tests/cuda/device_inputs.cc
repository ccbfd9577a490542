#include "cuda/device_inputs.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/float16.h"

namespace nf::test {
namespace {

float value_of(Generator& random, Input input, float scale) {
  const auto normal = static_cast<float>(random.normal());
  const auto exponent = [&](int min, int max) {
    return min + static_cast<int>(random.below(static_cast<std::uint64_t>(max - min + 1)));
  };
  switch (input) {
    case Input::kMixture: return scale * normal;
    case Input::kOffset: return scale * (3.0f + normal);
    case Input::kConstant: return 0.337f;
    case Input::kZeros: return 0;
    case Input::kTiny: return std::ldexp(normal, exponent(-149, -95));
    case Input::kHuge: return std::ldexp(normal, exponent(118, 128));
    case Input::kSteep: return random.below(4) == 0 ? 0 : scale * normal;
    case Input::kHostile: break;
  }
  switch (random.below(12)) {
    case 0: return std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    case 1: return 0.0f;
    case 2: return -0.0f;
    case 3: return std::ldexp(normal, exponent(-140, 120));
    default: return scale * normal;
  }
}

}  // namespace

std::vector<std::byte> make_values(Generator& random, DataType type, Input input,
                                   std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(type));
  float scale = 1;
  bool is_calm = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 256 == 0) {
      const int max = type == DataType::kFloat16 ? 6 : 20;
      scale = std::ldexp(1.0f,
                         static_cast<int>(random.below(static_cast<std::uint64_t>(2 * max))) - max);
      is_calm = random.below(3) == 0;
    }
    if (input == Input::kSteep && i % 16 == 0) {
      scale = std::ldexp(1.0f, -25 * static_cast<int>(random.below(6)));
    }
    const bool is_hostile = input == Input::kHostile;
    float value = value_of(random, is_hostile && is_calm ? Input::kMixture : input, scale);
    if (is_hostile && !is_calm && random.below(700) == 0) {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const float odd[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
      value = odd[random.below(3)];
    }
    if (type == DataType::kFloat32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      const std::uint16_t bits =
          type == DataType::kBfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

}  // namespace nf::test
