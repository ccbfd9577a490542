#include "neuron_fabric/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "runtime/json_reader.h"
#include "runtime/profile_fields.h"
#include "runtime/route.h"

namespace nf {
namespace {

constexpr std::size_t kMaxRegions = 64;
constexpr std::size_t kMaxPhases = 64;
constexpr std::size_t kMaxPatterns = 256;
constexpr std::size_t kMaxWord = 64;
constexpr std::size_t kMaxText = 1024;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

Status check_text(std::string_view path, std::string_view text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (text.empty()) return bad(fmt::format("{} is empty", path));
  if (text.size() > kMaxText) {
    return bad(fmt::format("{} is longer than {} bytes", path, kMaxText));
  }
  if (std::any_of(text.begin(), text.end(), is_control)) {
    return bad(fmt::format("{} has a control character", path));
  }
  return {};
}

// Error messages of codecs quote their input.
Status check_ascii(std::string_view path, std::string_view text) {
  const auto is_fit = [](unsigned char c) { return c >= 0x20 && c < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_fit)) return {};
  return bad(
      fmt::format("{} is {}; the names of codecs are printable ASCII", path, in_quotes(text)));
}

// Region names are keys in logs and labels of metrics.
Status check_word(std::string_view path, std::string_view word) {
  const auto is_fit = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (!word.empty() && word.size() <= kMaxWord && std::all_of(word.begin(), word.end(), is_fit)) {
    return {};
  }
  return bad(fmt::format("{} is {}; it must be 1 to {} letters, digits, '_', '-' or '.'", path,
                         in_quotes(word), kMaxWord));
}

Status check_range(std::string_view path, double value, const Range& range) {
  if (range.has(value)) return {};
  return bad(fmt::format("{} is {}; it must be {} {} and at most {}", path, value,
                         range.is_open ? "more than" : "at least", range.min, range.max));
}

Status check_count(std::string_view path, std::size_t count, std::size_t max) {
  if (count >= 1 && count <= max) return {};
  return bad(fmt::format("{} has {} elements; it must have 1 to {}", path, count, max));
}

Status check_patterns(const std::string& path, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  NF_RETURN_IF_ERROR(check_count(path, patterns.size(), kMaxPatterns));
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    NF_RETURN_IF_ERROR(check_text(element_path(path, i), patterns[i]));
  }
  return {};
}

Status check_regions(const std::vector<Region>& regions) {
  NF_RETURN_IF_ERROR(check_count("regions", regions.size(), kMaxRegions));
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    const std::string path = element_path("regions", i);
    NF_RETURN_IF_ERROR(check_word(path + ".name", region.name));
    if (!names.insert(region.name).second) {
      return bad(fmt::format("{}.name: there are two regions '{}'", path, region.name));
    }
    NF_RETURN_IF_ERROR(check_patterns(path + ".names", region.names));
    NF_RETURN_IF_ERROR(check_patterns(path + ".module_types", region.module_types));
    if (region.error_budget) {
      NF_RETURN_IF_ERROR(check_range(path + ".error_budget", *region.error_budget, kErrorBudgets));
    }
  }
  return {};
}

Status check_phases(const Profile& profile) {
  NF_RETURN_IF_ERROR(check_count("phases", profile.phases.size(), kMaxPhases));
  std::vector<std::string_view> regions;
  for (const Region& region : profile.regions) regions.push_back(region.name);
  std::set<std::string_view> valid_routes;
  for (std::size_t i = 0; i < profile.phases.size(); ++i) {
    const TrainingPhase& phase = profile.phases[i];
    const std::string path = element_path("phases", i);
    NF_RETURN_IF_ERROR(check_range(path + ".from_step", static_cast<double>(phase.from_step),
                                   Range{0, kMaxSteps}));
    if (i == 0 && phase.from_step != 0) {
      return bad(fmt::format("{}.from_step is {}; the first phase must start at step 0", path,
                             phase.from_step));
    }
    if (i > 0 && phase.from_step <= profile.phases[i - 1].from_step) {
      return bad(
          fmt::format("{}.from_step is {}; it must be more than {}, that of the previous phase",
                      path, phase.from_step, profile.phases[i - 1].from_step));
    }
    for (const auto& [region, route] : phase.routes) {
      if (std::find(regions.begin(), regions.end(), region) == regions.end()) {
        return bad(fmt::format("{}.routes: there is no region {}{}", path, in_quotes(region),
                               did_you_mean(region, regions)));
      }
      if (valid_routes.contains(route)) continue;
      NF_RETURN_IF_ERROR(check_ascii(fmt::format("{}.routes.{}", path, region), route));
      if (const Status status = check_route(route); !status.ok()) {
        return bad(fmt::format("{}.routes.{}: {}", path, region, status.message()));
      }
      valid_routes.insert(route);
    }
    for (const std::string_view region : regions) {
      if (!phase.routes.contains(std::string(region))) {
        return bad(fmt::format("{}.routes has no route for region '{}'", path, region));
      }
    }
  }
  return {};
}

}  // namespace

Status Profile::check() const {
  NF_RETURN_IF_ERROR(check_text("name", name));
  NF_RETURN_IF_ERROR(check_regions(regions));
  NF_RETURN_IF_ERROR(check_phases(*this));
  Status status;
  const auto check_in = [&status](std::string_view part) {
    return [&status, part](const Setting& setting, auto value) {
      if (!status.ok()) return;
      status = check_range(fmt::format("{}.{}", part, setting.key), static_cast<double>(value),
                           setting.range);
    };
  };
  visit_health(health, check_in("health"));
  visit_reducer(reducer, check_in("reducer"));
  NF_RETURN_IF_ERROR(status);
  NF_RETURN_IF_ERROR(
      check_range("smallest_parameter", static_cast<double>(smallest_parameter), kParameterSizes));
  const Expected<Json> parsed = parse_json(provenance);
  if (!parsed) return bad(fmt::format("provenance: {}", parsed.status().message()));
  if (!parsed->is_object()) return bad("provenance: expected an object, {...}");
  return {};
}

}  // namespace nf
