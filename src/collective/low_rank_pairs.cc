#include "collective/low_rank_pairs.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "collective/checkpoint_checks.h"
#include "collective/low_rank.h"

namespace nf {
namespace {

// Checks that both belong to one matrix that is sent as factors and has the known shape, if any.
Status check_pair(const MemoryEntry& basis, const MemoryEntry& error, std::uint32_t terms,
                  const LowRankShape& known) {
  const std::size_t rows = error.rows;
  const std::size_t count = error.values.size();
  const std::size_t cols = rows == 0 ? 0 : count / rows;
  const bool is_other = known.rows != 0 && known != LowRankShape{rows, cols};
  if (rows == 0 || rows * cols != count || basis.rows != rows ||
      basis.values.size() != terms * cols || low_rank_values(rows, cols, terms) == count ||
      is_other) {
    return bad_memory(
        error.parameter,
        fmt::format(
            "a basis of {} values and an error of {} values in {} rows do not match {} terms{}",
            basis.values.size(), count, rows, terms,
            is_other ? fmt::format(" of a matrix of {} x {}", known.rows, known.cols) : ""));
  }
  return {};
}

}  // namespace

Expected<std::vector<LowRankPair>> low_rank_pairs(
    std::span<const MemoryEntry> memory, std::uint32_t terms,
    const std::function<LowRankShape(std::uint64_t parameter)>& known) {
  NF_RETURN_IF_ERROR(check_memory(memory, std::array{kLowRankBasis, kLowRankError}));
  struct Parts {
    const MemoryEntry* basis = nullptr;
    const MemoryEntry* error = nullptr;
  };
  std::map<std::uint64_t, Parts> by_parameter;
  for (const MemoryEntry& one : memory) {
    Parts& parts = by_parameter[one.parameter];
    (one.kind == kLowRankBasis ? parts.basis : parts.error) = &one;
  }
  std::vector<LowRankPair> pairs;
  for (const auto& [parameter, parts] : by_parameter) {
    if (parts.basis == nullptr || parts.error == nullptr) {
      return bad_memory(
          parameter,
          fmt::format("its {} is missing", parts.basis == nullptr ? kLowRankBasis : kLowRankError));
    }
    NF_RETURN_IF_ERROR(check_pair(*parts.basis, *parts.error, terms, known(parameter)));
    const std::size_t rows = parts.error->rows;
    pairs.push_back({.parameter = parameter,
                     .shape = {rows, parts.error->values.size() / rows},
                     .basis = parts.basis->values,
                     .error = parts.error->values});
  }
  return pairs;
}

Status check_shape(std::uint64_t parameter, const LowRankShape& stored,
                   const LowRankShape& current) {
  if (stored == current) return {};
  return bad_memory(parameter,
                    fmt::format("it is for a matrix of {} x {}, but the parameter is now "
                                "{} x {}; call forget() first",
                                stored.rows, stored.cols, current.rows, current.cols));
}

}  // namespace nf
