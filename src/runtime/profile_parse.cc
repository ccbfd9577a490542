#include <fmt/format.h>

#include <array>

#include "neuron_fabric/profile.h"
#include "runtime/json_reader.h"
#include "runtime/profile_fields.h"
#include "runtime/text_file.h"

namespace nf {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

using Keys = std::span<const std::string_view>;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

// Called first: another format or a newer version has other keys.
Status check_version(const Json& json) {
  if (!json.is_object()) return bad("expected an object, {...}");
  const auto format = json.find("format");
  if (format == json.end() || *format != Profile::kFormat) {
    return bad(fmt::format("not a profile: its \"format\" is not \"{}\"", Profile::kFormat));
  }
  const auto version = json.find("version");
  if (version == json.end()) return bad("version is missing");
  if (*version == Profile::kVersion) return {};
  if (version->is_number() && *version > Profile::kVersion) {
    return bad(
        fmt::format("the profile has version {}, but this library reads versions up to {}; "
                    "update neuron_fabric",
                    version->dump(), Profile::kVersion));
  }
  return bad(fmt::format("version is not {}", Profile::kVersion));
}

// Calls read_one(element, its path) for each object of a list.
template <typename ReadOne>
Status read_objects(const JsonObject& parent, std::string_view key, ReadOne read_one) {
  const Json& list = *parent.find(key);
  if (!list.is_array()) return bad(fmt::format("{} is not a list, [...]", parent.path_of(key)));
  for (std::size_t i = 0; i < list.size(); ++i) {
    NF_RETURN_IF_ERROR(read_one(list[i], element_path(parent.path_of(key), i)));
  }
  return {};
}

Status read_region(const Json& json, const std::string& path, std::vector<Region>& regions) {
  static constexpr std::array<std::string_view, 4> kKeys = {"name", "names", "module_types",
                                                            "error_budget"};
  const Expected<JsonObject> object = JsonObject::open(json, path, kKeys);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(object->require(Keys(kKeys).first(1)));
  Region region;
  NF_RETURN_IF_ERROR(object->read("name", region.name));
  NF_RETURN_IF_ERROR(object->read("names", region.names));
  NF_RETURN_IF_ERROR(object->read("module_types", region.module_types));
  if (object->find("error_budget") != nullptr) {
    NF_RETURN_IF_ERROR(object->read("error_budget", region.error_budget.emplace()));
  }
  regions.push_back(std::move(region));
  return {};
}

Status read_phase(const Json& json, const std::string& path, std::vector<TrainingPhase>& phases) {
  static constexpr std::array<std::string_view, 2> kKeys = {"from_step", "routes"};
  const Expected<JsonObject> object = JsonObject::open(json, path, kKeys);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(object->require(kKeys));
  TrainingPhase phase;
  NF_RETURN_IF_ERROR(object->read("from_step", phase.from_step));
  const Json& routes = *object->find("routes");
  if (!routes.is_object()) {
    return bad(fmt::format("{}: expected an object, {{...}}", object->path_of("routes")));
  }
  for (const auto& [region, route] : routes.items()) {
    if (!route.is_string()) {
      return bad(fmt::format("{}: the route of {} is not a string in quotes",
                             object->path_of("routes"), in_quotes(region)));
    }
    phase.routes.emplace(region, route.get<std::string>());
  }
  phases.push_back(std::move(phase));
  return {};
}

// An object of optional settings; `visit` is visit_health or visit_reducer.
template <typename Settings, typename Visit>
Status read_settings(const JsonObject& parent, std::string_view key, Settings& settings,
                     Visit visit) {
  const Json* json = parent.find(key);
  if (json == nullptr) return {};
  std::vector<std::string_view> keys;
  visit(settings,
        [&](const Setting& setting, const auto& /*field*/) { keys.push_back(setting.key); });
  const Expected<JsonObject> object = JsonObject::open(*json, parent.path_of(key), keys);
  if (!object) return object.status();
  Status status;
  visit(settings, [&](const Setting& setting, auto& field) {
    if (status.ok()) status = object->read(setting.key, field);
  });
  return status;
}

Status read_profile(const Json& json, Profile& profile) {
  static constexpr std::array<std::string_view, 9> kKeys = {
      "format",    "version", "name",    "regions",
      "phases",    "health",  "reducer", "smallest_parameter",
      "provenance"};
  NF_RETURN_IF_ERROR(check_version(json));
  const Expected<JsonObject> object = JsonObject::open(json, "", kKeys);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(object->require(Keys(kKeys).first(5)));
  NF_RETURN_IF_ERROR(object->read("name", profile.name));
  NF_RETURN_IF_ERROR(read_objects(*object, "regions", [&](const Json& one, const std::string& at) {
    return read_region(one, at, profile.regions);
  }));
  NF_RETURN_IF_ERROR(read_objects(*object, "phases", [&](const Json& one, const std::string& at) {
    return read_phase(one, at, profile.phases);
  }));
  NF_RETURN_IF_ERROR(read_settings(*object, "health", profile.health,
                                   [](auto& of, auto visit) { visit_health(of, visit); }));
  NF_RETURN_IF_ERROR(read_settings(*object, "reducer", profile.reducer,
                                   [](auto& of, auto visit) { visit_reducer(of, visit); }));
  NF_RETURN_IF_ERROR(object->read("smallest_parameter", profile.smallest_parameter));
  if (const Json* provenance = object->find("provenance")) profile.provenance = provenance->dump();
  return profile.check();
}

}  // namespace

Expected<Profile> Profile::parse(std::string_view text, std::string_view origin) {
  const auto fail = [&](const std::string& why) { return bad(fmt::format("{}: {}", origin, why)); };
  if (text.size() > kMaxBytes) return fail(fmt::format("larger than {} MiB", kMaxBytes >> 20));
  const Expected<Json> json = parse_json(text);
  if (!json) return fail(json.status().message());
  Profile profile;
  if (const Status status = read_profile(*json, profile); !status.ok()) {
    return fail(status.message());
  }
  // The printed form may be longer than the input, and must be readable, too.
  if (profile.print().size() > kMaxBytes) return fail("larger than 1 MiB when printed");
  return profile;
}

Expected<Profile> Profile::read(const std::string& path) {
  const Expected<std::string> text = read_text_file(path, kMaxBytes);
  if (!text) return text.status();
  return parse(*text, path);
}

}  // namespace nf
