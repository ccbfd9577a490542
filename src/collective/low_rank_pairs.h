// The saved memory of powersgd has two entries per parameter: basis and error.
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

// The pairs of `memory`, which they borrow. Fails, naming the parameter, if an entry of a pair is
// missing, if its matrix would not be sent as factors of `terms` terms, or if its shape differs
// from the current one, which `known` returns (0 x 0 if there is none).
Expected<std::vector<LowRankPair>> low_rank_pairs(
    std::span<const MemoryEntry> memory, std::uint32_t terms,
    const std::function<LowRankShape(std::uint64_t parameter)>& known);

// Checks that a parameter has the shape of its memory.
Status check_shape(std::uint64_t parameter, const LowRankShape& stored,
                   const LowRankShape& current);

}  // namespace nf
