#include "neuron_fabric/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/checksum.h"
#include "neuron_fabric/codec_spec.h"
#include "runtime/json_reader.h"
#include "runtime/profile_fields.h"
#include "runtime/region_match.h"

namespace nf {
namespace {

using Parameters = std::span<const ModelParameter>;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

Status check_parameters(Parameters parameters) {
  std::set<std::string_view> names;
  for (const ModelParameter& parameter : parameters) {
    if (!names.insert(parameter.name).second) {
      return bad(fmt::format("two parameters are named {}", in_quotes(parameter.name)));
    }
    if (parameter.rows != 0 && parameter.count % parameter.rows != 0) {
      return bad(fmt::format("parameter {}: {} values do not make a matrix of {} rows",
                             in_quotes(parameter.name), parameter.count, parameter.rows));
    }
  }
  return {};
}

// "fc.*, classifier.*".
std::string patterns_of(const Region& region) {
  std::vector<std::string> all = region.names;
  for (const std::string& type : region.module_types) all.push_back("module type " + type);
  return legible(fmt::format("{}", fmt::join(all, ", ")));
}

// A pattern that would have matched: the nearest of all names, modules and last parts of names.
std::string hint_of_names(const Region& region, Parameters parameters) {
  std::set<std::string> known;
  for (const ModelParameter& parameter : parameters) {
    const std::string& name = parameter.name;
    known.insert(name);
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      known.insert(name.substr(0, dot) + ".*");
    }
    if (const std::size_t dot = name.rfind('.'); dot != name.npos) {
      known.insert('*' + name.substr(dot));
    }
  }
  const std::vector<std::string_view> words(known.begin(), known.end());
  for (const std::string& pattern : region.names) {
    if (std::string hint = did_you_mean(pattern, words); !hint.empty()) return hint;
  }
  return fmt::format("; they go from {} to {}", in_quotes(parameters.front().name),
                     in_quotes(parameters.back().name));
}

std::string hint_of_types(Parameters parameters) {
  std::set<std::string> types;
  for (const ModelParameter& parameter : parameters) types.insert(parameter.module_type);
  types.erase("");
  if (types.empty()) return ", whose module types are not known";
  return fmt::format("; their module types are {}",
                     legible(fmt::format("{}", fmt::join(types, ", "))));
}

// A region without parameters indicates a profile for another model, or a mistake.
Status unused(const Profile& profile, const Region& region, Parameters parameters) {
  const auto count_if = [&](const Region& of) {
    return std::count_if(parameters.begin(), parameters.end(),
                         [&](const ModelParameter& one) { return match(of, one).has_value(); });
  };
  if (const auto matching = count_if(region); matching > 0) {
    return bad(fmt::format(
        "profile {}: region '{}' ({}) matches no parameter: earlier regions match all {} "
        "that it would; move it up or remove it",
        in_quotes(profile.name), region.name, patterns_of(region), matching));
  }
  std::string hint;
  if (!parameters.empty()) {
    const bool is_name_at_fault =
        !region.names.empty() && count_if({.name = region.name, .names = region.names}) == 0;
    hint = is_name_at_fault ? hint_of_names(region, parameters) : hint_of_types(parameters);
  }
  return bad(fmt::format(
      "profile {} was made for another model: region '{}' ({}) matches none of the {} "
      "parameters{}",
      in_quotes(profile.name), region.name, patterns_of(region), parameters.size(), hint));
}

}  // namespace

Expected<Binding> Binding::make(Profile profile, std::vector<ModelParameter> parameters) {
  if (const Status status = profile.check(); !status.ok()) {
    return bad(fmt::format("profile {}: {}", in_quotes(profile.name), status.message()));
  }
  NF_RETURN_IF_ERROR(check_parameters(parameters));
  Binding binding;
  std::vector<bool> is_used(profile.regions.size(), false);
  for (const ModelParameter& parameter : parameters) {
    const auto region = first_match(profile.regions, parameter);
    if (!region) {
      return bad(fmt::format(
          "profile {} has no region for parameter {} of module type {}; add one, "
          "or a last region without patterns that takes the rest",
          in_quotes(profile.name), in_quotes(parameter.name), in_quotes(parameter.module_type)));
    }
    is_used[*region] = true;
    binding.regions_.push_back(*region);
  }
  for (std::size_t i = 0; i < is_used.size(); ++i) {
    const Region& region = profile.regions[i];
    if (is_used[i] || (region.names.empty() && region.module_types.empty())) continue;
    return unused(profile, region, parameters);
  }
  binding.profile_ = std::move(profile);
  binding.parameters_ = std::move(parameters);
  return binding;
}

bool Binding::is_small(std::size_t parameter) const {
  return parameters_[parameter].count < profile_.smallest_parameter;
}

const std::string& Binding::route(std::uint32_t region, std::uint64_t step) const {
  return profile_.phases[phase_at(step)].routes.at(profile_.regions[region].name);
}

std::size_t Binding::phase_at(std::uint64_t step) const {
  // check() guarantees that the first phase starts at step 0.
  const auto after = std::upper_bound(
      profile_.phases.begin(), profile_.phases.end(), step,
      [](std::uint64_t at, const TrainingPhase& phase) { return at < phase.from_step; });
  return static_cast<std::size_t>(after - profile_.phases.begin()) - 1;
}

std::string Binding::describe() const {
  std::string text;
  const auto write_of = [&text](std::string_view part) {
    return [&text, part](const Setting& setting, auto value) {
      text += fmt::format("{}.{} {}\n", part, setting.key, value);
    };
  };
  visit_health(profile_.health, write_of("health"));
  visit_reducer(profile_.reducer, write_of("reducer"));
  text += fmt::format("smallest_parameter {}\n", profile_.smallest_parameter);
  std::vector<std::string> routes;  // by region
  for (std::uint32_t i = 0; i < profile_.regions.size(); ++i) {
    std::string& line = routes.emplace_back();
    for (const TrainingPhase& phase : profile_.phases) {
      line += fmt::format(", {} from step {}", route(i, phase.from_step), phase.from_step);
    }
    const Region& region = profile_.regions[i];
    text += fmt::format("region {}: error budget {}{}\n", region.name,
                        region.error_budget.value_or(profile_.health.error_budget), line);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ModelParameter& parameter = parameters_[i];
    const std::uint32_t region = regions_[i];
    text += fmt::format("parameter {}: {} values, {} rows, region {}{}\n", parameter.name,
                        parameter.count, parameter.rows, profile_.regions[region].name,
                        is_small(i) ? fmt::format(", {}: small", kDenseRoute) : routes[region]);
  }
  return text;
}

std::uint64_t Binding::hash() const { return checksum(describe()); }

}  // namespace nf
