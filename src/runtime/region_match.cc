#include "runtime/region_match.h"

#include <algorithm>

#include "runtime/glob.h"

namespace nf {
namespace {

// Null if none matches.
const std::string* first_of(const std::vector<std::string>& patterns, const std::string& text) {
  const auto found =
      std::find_if(patterns.begin(), patterns.end(),
                   [&](const std::string& pattern) { return matches(pattern, text); });
  return found == patterns.end() ? nullptr : &*found;
}

}  // namespace

std::optional<RegionMatch> match(const Region& region, const ModelParameter& parameter) {
  const RegionMatch found{.name = first_of(region.names, parameter.name),
                          .module_type = first_of(region.module_types, parameter.module_type)};
  if (found.name == nullptr && !region.names.empty()) return {};
  if (found.module_type == nullptr && !region.module_types.empty()) return {};
  return found;
}

std::optional<std::uint32_t> first_match(std::span<const Region> regions,
                                         const ModelParameter& parameter) {
  for (std::uint32_t i = 0; i < regions.size(); ++i) {
    if (match(regions[i], parameter)) return i;
  }
  return {};
}

}  // namespace nf
