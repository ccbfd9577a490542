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

void sort_memory(std::vector<MemoryEntry>& memory) {
  std::sort(memory.begin(), memory.end(), [](const MemoryEntry& a, const MemoryEntry& b) {
    return std::tie(a.parameter, a.kind) < std::tie(b.parameter, b.kind);
  });
}

Status check_memory(std::span<const MemoryEntry> memory, std::span<const std::string_view> kinds) {
  std::set<std::pair<std::uint64_t, std::string_view>> seen;
  for (const MemoryEntry& entry : memory) {
    if (std::find(kinds.begin(), kinds.end(), entry.kind) == kinds.end()) {
      return bad_memory(
          entry.parameter,
          fmt::format("this codec does not store '{}'{}", entry.kind,
                      kinds.empty() ? "; it has no memory"
                                    : fmt::format("; it stores: {}", fmt::join(kinds, ", "))));
    }
    if (!seen.emplace(entry.parameter, entry.kind).second) {
      return bad_memory(entry.parameter, fmt::format("its {} occurs twice", entry.kind));
    }
    if (!std::all_of(entry.values.begin(), entry.values.end(),
                     [](float value) { return std::isfinite(value); })) {
      return bad_memory(entry.parameter, fmt::format("its {} contains NaN or Inf", entry.kind));
    }
  }
  return {};
}

Status check_loss_scale(float loss_scale) {
  if (loss_scale > 0 && std::isnormal(loss_scale)) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("the loss scale must be a normal number above 0, not {}", loss_scale)};
}

}  // namespace nf
