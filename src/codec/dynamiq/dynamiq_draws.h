// What rounding draws in dynamiq (docs/codecs/dynamiq.md).
//
// The n ranks of a sum cut [0, 1) into n strata. For each element the rank of index i takes stratum
// (a i + c) mod n, where a, coprime to n, belongs to the super-group and c to the element:
// different ranks take different strata. Where in its stratum a rank's draw lies is the rank's own
// affair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "neuron_fabric/codec.h"

namespace nf {

struct DynamiqDraws {
  static constexpr std::uint32_t kMostStrata = 1u << 15;  // so that 16 bits hold twice as many
  static constexpr std::size_t kFactors = 8;
  static constexpr std::uint32_t kFactorElement = kDrawBlock;  // after those of the elements

  // For one message by `encoder`; all strata are one unless `correlated`.
  DynamiqDraws(const Slice& slice, std::uint32_t encoder, bool correlated);

  // The shared draw of an element. One serves an element of a group of 32 and, with its bytes
  // exchanged, the same one of the next group.
  static std::uint32_t shared_draw(DrawKey shared_key, std::uint32_t element) {
    const std::uint32_t draw = draw16(shared_key, element / 64 * 32 + element % 32);
    return element % 64 < 32 ? draw : (draw << 8 | draw >> 8) & 0xffffu;
  }

  // (a i) mod n for a super-group, from the key of its shared draws.
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
  std::array<std::uint32_t, kFactors> factors{};  // what a may be
};

}  // namespace nf
