// The random draws of dynamiq's rounding (docs/codecs/dynamiq.md).
//
// With n ranks, [0, 1) is split into n strata. For each element, the rank of index i draws from
// stratum (a i + c) mod n, so that different ranks use different strata. a is coprime to n and
// shared by the super-group; c is shared by all ranks. The position within the stratum is private
// to the rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "neuron_fabric/codec.h"

namespace nf {

struct DynamiqDraws {
  static constexpr std::uint32_t kMaxStrata = 1u << 15;  // twice as many fit in 16 bits
  static constexpr std::size_t kFactors = 8;
  static constexpr std::uint32_t kFactorElement = kDrawBlock;  // the draw after the elements' draws

  // The draws of one message of `encoder`. There is only one stratum unless `correlated`.
  DynamiqDraws(const Slice& slice, std::uint32_t encoder, bool correlated);

  // The shared draw of an element. Two packs of 32 elements use the same draws; the bytes are
  // swapped in the second one.
  static std::uint32_t shared_draw(DrawKey shared_key, std::uint32_t element) {
    const std::uint32_t draw = draw16(shared_key, element / 64 * 32 + element % 32);
    return element % 64 < 32 ? draw : (draw << 8 | draw >> 8) & 0xffffu;
  }

  // (a i) mod n of the super-group with this key of shared draws.
  std::uint32_t shift(DrawKey shared_key) const {
    const std::size_t pick = draw16(shared_key, kFactorElement) * kFactors >> 16;
    return factors[pick] * index % strata;
  }

  DrawStream rounding;
  DrawStream group_scale;
  DrawStream shared;
  std::uint32_t strata = 1;  // n
  std::uint32_t index = 0;   // i
  // (65536 stratum + draw + 1/2) * slope lies in (0, 1).
  float slope = 0;
  std::array<std::uint32_t, kFactors> factors{};  // the candidates for a
};

}  // namespace nf
