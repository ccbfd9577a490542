#pragma once

#include <cmath>
#include <random>

namespace nf::test {

// Standard normal values with the bits of std::normal_distribution<float> in libstdc++, which calls
// log(long double) for each draw unless the compiler folds it.
class Normal {
 public:
  float operator()(std::mt19937& random) {
    if (has_saved_) {
      has_saved_ = false;
      return saved_;
    }
    float x = 0;
    float y = 0;
    float square = 0;
    do {
      x = static_cast<float>(2.0 * uniform(random) - 1.0);
      y = static_cast<float>(2.0 * uniform(random) - 1.0);
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const float factor = std::sqrt(-2 * std::log(square) / square);
    saved_ = x * factor;
    has_saved_ = true;
    return y * factor;
  }

 private:
  static double uniform(std::mt19937& random) {
    const float value = static_cast<float>(random()) / 0x1p32f;
    return value < 1 ? value : std::nextafter(1.0f, 0.0f);
  }

  float saved_ = 0;
  bool has_saved_ = false;
};

}  // namespace nf::test
