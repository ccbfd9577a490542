// Error feedback: what a rank's encodes have lost, element by element, to be added to its values
// the next time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "collective/tile_codec.h"

namespace nf {

class Residuals {
 public:
  // Where the losses of this call are to be written: zeros of a parameter's size.
  std::span<float> begin(std::uint64_t parameter, std::size_t count);
  // Adds what was kept to the work values of `domain`. Precondition: they are FP32.
  void add(std::span<const Piece> domain, std::span<const ParameterView> parameters);
  // From now on the losses of this call are what is kept.
  void keep(std::span<const ParameterView> parameters);
  void clear() { by_parameter_.clear(); }

 private:
  struct Residual {
    std::vector<float> kept;
    std::vector<float> next;
  };

  std::unordered_map<std::uint64_t, Residual> by_parameter_;
};

}  // namespace nf
