#include "collective/low_rank_pairs.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "collective/checkpoint_checks.h"
#include "collective/low_rank.h"

namespace nf {
namespace {

// That they are of one matrix, which travels as factors and is the one that is known already.
Status check_pair(const Remembered& basis, const Remembered& error, std::uint32_t terms,
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
            "a basis of {} values and an error of {} in {} rows do not fit {} terms{}",
            basis.values.size(), count, rows, terms,
            is_other ? fmt::format(" of a matrix of {} x {}", known.rows, known.cols) : ""));
  }
  return {};
}

}  // namespace

Expected<std::vector<LowRankPair>> low_rank_pairs(
    std::span<const Remembered> memory, std::uint32_t terms,
    const std::function<LowRankShape(std::uint64_t parameter)>& known) {
  NF_RETURN_IF_ERROR(check_memory(memory, std::array{kLowRankBasis, kLowRankError}));
  struct Parts {
    const Remembered* basis = nullptr;
    const Remembered* error = nullptr;
  };
  std::map<std::uint64_t, Parts> by_parameter;
  for (const Remembered& one : memory) {
    Parts& parts = by_parameter[one.parameter];
    (one.what == kLowRankBasis ? parts.basis : parts.error) = &one;
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

Status check_shape(std::uint64_t parameter, const LowRankShape& remembered,
                   const LowRankShape& now) {
  if (remembered == now) return {};
  return bad_memory(parameter, fmt::format("the error of a matrix of {} x {} is remembered of it, "
                                           "and it now has {} x {}; forget() it first",
                                           remembered.rows, remembered.cols, now.rows, now.cols));
}

}  // namespace nf
