#include "nf/profile/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "nf/profile/evidence.h"
#include "nf/support/table.h"
#include "runtime/profile_fields.h"

namespace nf::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string patterns(const std::vector<std::string>& all) {
  return all.empty() ? "any" : printable(fmt::format("{}", fmt::join(all, ", ")));
}

std::string regions_table(const Profile& profile) {
  Table table({{.title = "region", .is_text = true},
               {.title = "names", .is_text = true},
               {.title = "module types", .is_text = true},
               {.title = "error budget"}});
  for (const Region& region : profile.regions) {
    table.add({region.name, patterns(region.names), patterns(region.module_types),
               fmt::format("{}", region.error_budget.value_or(profile.health.error_budget))});
  }
  return table.text();
}

std::string routes_table(const Profile& profile) {
  std::vector<Column> columns = {{.title = "route", .is_text = true}};
  for (const TrainingPhase& phase : profile.phases) {
    columns.push_back(
        {.title = fmt::format("from step {}", grouped(phase.from_step)), .is_text = true});
  }
  Table table(columns);
  for (const Region& region : profile.regions) {
    std::vector<std::string> cells = {region.name};
    for (const TrainingPhase& phase : profile.phases) {
      cells.push_back(phase.routes.at(region.name));
    }
    table.add(cells);
  }
  return table.text();
}

template <typename Number>
std::string number_text(Number value) {
  if constexpr (std::is_integral_v<Number>) return grouped(value);
  return fmt::format("{}", value);
}

std::string health_table(const Profile& profile) {
  Table table({{.title = "limit", .is_text = true},
               {.title = "value"},
               {.title = "meaning", .is_text = true}});
  visit_health(profile.health, [&](const Setting& setting, auto value) {
    table.add({std::string(setting.key), number_text(value), std::string(setting.meaning)});
  });
  table.add({"smallest_parameter", grouped(profile.smallest_parameter),
             "values; smaller parameters are dense"});
  return table.text();
}

std::string reducer_table(const Profile& profile) {
  Table table({{.title = "reducer", .is_text = true},
               {.title = "capacity"},
               {.title = "meaning", .is_text = true}});
  visit_reducer(profile.reducer, [&](const Setting& setting, auto value) {
    table.add({std::string(setting.key), value == 0 ? "no limit" : number_text(value),
               std::string(setting.meaning)});
  });
  return table.text();
}

std::string provenance_table(const Profile& profile) {
  const Json json = Json::parse(profile.provenance);
  if (json.empty()) return "provenance  unknown\n";
  const std::string evidence = evidence_tables(json);
  Table table({{.title = "provenance", .is_text = true}, {.title = "", .is_text = true}});
  for (const auto& [key, value] : json.items()) {
    if (!evidence.empty() && is_evidence(key)) continue;
    table.add(
        {printable(key), printable(value.is_string() ? value.get<std::string>() : value.dump())});
  }
  return evidence.empty() ? table.text() : table.text() + '\n' + evidence;
}

// The profile with regions keyed by name and phases keyed by step, so that the comparison matches
// them.
Json keyed(const Profile& profile) {
  Json json = Json::parse(profile.print());
  Json regions = Json::object();
  for (Json& region : json["regions"]) {
    const auto name = region["name"].get<std::string>();
    region.erase("name");
    region["place"] = regions.size();
    regions[name] = std::move(region);
  }
  Json phases = Json::object();
  for (Json& phase : json["phases"]) {
    const std::string from = fmt::format("from step {}", phase["from_step"].get<std::uint64_t>());
    phases[from] = std::move(phase["routes"]);
  }
  json["regions"] = std::move(regions);
  json["phases"] = std::move(phases);
  return json;
}

class Difference {
 public:
  Difference(std::string_view first, std::string_view second) : first_(first), second_(second) {}

  const std::string& lines() const { return lines_; }

  // Adds the differences of two objects at `path`.
  void add(const std::string& path, const Json& a, const Json& b) {
    for (const auto& [key, value] : a.items()) {
      const std::string at = path.empty() ? key : fmt::format("{}.{}", path, key);
      const auto other = b.find(key);
      if (other == b.end()) {
        add_line(at, fmt::format("only in {}: {}", first_, value.dump()));
      } else if (value.is_object() && other->is_object()) {
        add(at, value, *other);
      } else if (value != *other) {
        add_line(at, fmt::format("{} -> {}", value.dump(), other->dump()));
      }
    }
    for (const auto& [key, value] : b.items()) {
      if (a.contains(key)) continue;
      const std::string at = path.empty() ? key : fmt::format("{}.{}", path, key);
      add_line(at, fmt::format("only in {}: {}", second_, value.dump()));
    }
  }

 private:
  void add_line(const std::string& at, const std::string& difference) {
    lines_ += printable(fmt::format("{}: {}", at, difference)) + '\n';
  }

  std::string_view first_;
  std::string_view second_;
  std::string lines_;
};

}  // namespace

std::string profile_tables(const Profile& profile) {
  return fmt::format("{}: {}, {}\n\n{}\n{}\n{}\n{}\n{}", printable(profile.name),
                     counted(profile.regions.size(), "region"),
                     counted(profile.phases.size(), "phase"), regions_table(profile),
                     routes_table(profile), health_table(profile), reducer_table(profile),
                     provenance_table(profile));
}

std::string profile_difference(const NamedProfile& first, const NamedProfile& second) {
  Difference difference(first.file, second.file);
  difference.add("", keyed(*first.profile), keyed(*second.profile));
  return difference.lines();
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace nf::cli
