// What powersgd is told to remember of a parameter comes in two parts, the basis and the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

inline constexpr std::string_view kLowRankBasis = "basis";
inline constexpr std::string_view kLowRankError = "error";

struct LowRankShape {
  std::size_t rows = 0;
  std::size_t cols = 0;

  friend bool operator==(const LowRankShape&, const LowRankShape&) = default;
};

struct LowRankPair {
  std::uint64_t parameter = 0;
  LowRankShape shape;
  std::span<const float> basis;
  std::span<const float> error;
};

// The pairs of `memory`, which they borrow. Fails, naming the parameter, where one is not whole, or
// of no matrix that travels as factors of so many terms, or not of the one that is known already:
// `known` says its shape, 0 x 0 where there is none.
Expected<std::vector<LowRankPair>> low_rank_pairs(
    std::span<const Remembered> memory, std::uint32_t terms,
    const std::function<LowRankShape(std::uint64_t parameter)>& known);

// That a parameter has the shape of what is remembered of it.
Status check_shape(std::uint64_t parameter, const LowRankShape& remembered,
                   const LowRankShape& now);

}  // namespace nf
