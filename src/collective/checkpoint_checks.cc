#include "collective/checkpoint_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace nf {

Status bad_memory(std::uint64_t parameter, std::string_view problem) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("memory of parameter {:#018x}: {}", parameter, problem)};
}

void sort_memory(std::vector<Remembered>& memory) {
  std::sort(memory.begin(), memory.end(), [](const Remembered& a, const Remembered& b) {
    return std::tie(a.parameter, a.what) < std::tie(b.parameter, b.what);
  });
}

Status check_memory(std::span<const Remembered> memory, std::span<const std::string_view> known) {
  std::set<std::pair<std::uint64_t, std::string_view>> seen;
  for (const Remembered& one : memory) {
    if (std::find(known.begin(), known.end(), one.what) == known.end()) {
      return bad_memory(
          one.parameter,
          fmt::format("'{}' is nothing that this codec remembers{}", one.what,
                      known.empty() ? "; it remembers nothing"
                                    : fmt::format("; it has: {}", fmt::join(known, ", "))));
    }
    if (!seen.emplace(one.parameter, one.what).second) {
      return bad_memory(one.parameter, fmt::format("its {} is there twice", one.what));
    }
    if (!std::all_of(one.values.begin(), one.values.end(),
                     [](float value) { return std::isfinite(value); })) {
      return bad_memory(one.parameter, fmt::format("its {} is not finite", one.what));
    }
  }
  return {};
}

Status check_loss_scale(float loss_scale) {
  if (loss_scale > 0 && std::isnormal(loss_scale)) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("a loss scale of {}, which is not a normal number above 0", loss_scale)};
}

}  // namespace nf
