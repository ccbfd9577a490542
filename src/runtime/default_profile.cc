#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "neuron_fabric/binding.h"
#include "runtime/glob.h"
#include "runtime/region_match.h"

namespace nf {
namespace {

using Path = std::vector<std::string_view>;

constexpr std::uint64_t kDefaultWarmUp = 3;

// The components of a name: "layers.3.fc.weight" has four.
Path split(std::string_view name) {
  Path parts;
  for (;;) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

// A component without its index: "" for "11", "layer_" for "layer_11"; nullopt if it has no index.
std::optional<std::string_view> stem(std::string_view part) {
  const std::size_t end = part.find_last_not_of("0123456789") + 1;  // 0 if all are digits
  if (end == part.size() || (end > 0 && part[end - 1] != '_')) return {};
  return part.substr(0, end);
}

// Whether the paths differ only in the index of component `at`.
bool are_siblings(const Path& a, const Path& b, std::size_t at) {
  if (a.size() != b.size() || a[at] == b[at] || stem(a[at]) != stem(b[at])) return false;
  const auto rest = static_cast<std::ptrdiff_t>(at);
  return std::equal(a.begin(), a.begin() + rest, b.begin()) &&
         std::equal(a.begin() + rest + 1, a.end(), b.begin() + rest + 1);
}

// Whether a parameter is in a repeated block: "h.11.mlp.fc.weight" if there is also
// "h.10.mlp.fc.weight". The layers of an nn.Sequential, "0.weight" and "2.weight", are not blocks:
// there is no name between index and parameter.
bool is_in_repeated_block(const Path& path, std::span<const ModelParameter> parameters) {
  const auto is_name = [](std::string_view part) { return !stem(part); };
  for (std::size_t at = 0; at + 2 < path.size(); ++at) {
    if (is_name(path[at]) ||
        std::none_of(path.begin() + std::ptrdiff_t(at) + 1, path.end() - 1, is_name)) {
      continue;
    }
    for (const ModelParameter& other : parameters) {
      if (are_siblings(path, split(other.name), at)) return true;
    }
  }
  return false;
}

bool is_adapter(const Path& path) {
  return std::any_of(path.begin(), path.end(),
                     [](std::string_view part) { return part.starts_with("lora_"); });
}

// Layers that keep a state or mix positions are never the output layer.
bool is_inner_type(const std::string& module_type) {
  const std::array<std::string_view, 4> types = {"*RNN*", "*LSTM*", "*GRU*", "*Attention*"};
  return std::any_of(types.begin(), types.end(),
                     [&](std::string_view type) { return matches(type, module_type); });
}

// The output layer, such as "lm_head" or "classifier.1": the module that owns the last matrix.
// Empty if there is no such layer: the last matrix is in a repeated block (the output layer shares
// the weight of the embedding, or is frozen), belongs to an adapter, a recurrent layer or
// attention, or is a direct parameter of the model. If an embedding comes last, its own region
// matches it.
std::string head_module(std::span<const ModelParameter> parameters) {
  const auto last = std::find_if(parameters.rbegin(), parameters.rend(),
                                 [](const ModelParameter& one) { return one.rows > 0; });
  if (last == parameters.rend() || is_inner_type(last->module_type)) return "";
  const Path path = split(last->name);
  if (path.size() == 1 || is_adapter(path) || is_in_repeated_block(path, parameters)) return "";
  return last->name.substr(0, last->name.rfind('.'));
}

// The number of parameters of each region.
std::vector<std::size_t> taken(std::span<const Region> regions,
                               std::span<const ModelParameter> parameters) {
  std::vector<std::size_t> counts(regions.size(), 0);
  for (const ModelParameter& parameter : parameters) {
    if (const auto region = first_match(regions, parameter)) ++counts[*region];
  }
  return counts;
}

}  // namespace

// The evidence for these routes and for the warm-up is docs/decisions/0015-low-bits-by-default.md.
Profile default_profile(std::span<const ModelParameter> parameters, std::string_view route) {
  const Region norm{.name = "norm", .module_types = {"*Norm*"}};
  const Region embedding{.name = "embedding", .module_types = {"*Embedding*"}};
  // The last two match attention and recurrent layers: in_proj_bias, bias_ih_l0.
  const Region bias{.name = "bias", .names = {"*.bias", "bias", "*_bias", "*.bias_*"}};
  const Region head{.name = "head", .names = {head_module(parameters) + ".*"}};
  const Region backbone{.name = "backbone"};

  Profile profile;
  profile.name = "default";
  profile.regions = {norm, embedding, bias, head, backbone};
  // A head is not separated if nothing else is left.
  if (taken(profile.regions, parameters).back() == 0) std::erase(profile.regions, head);
  const std::vector<std::size_t> counts = taken(profile.regions, parameters);
  for (std::size_t i = counts.size() - 1; i-- > 0;) {
    if (counts[i] == 0) profile.regions.erase(profile.regions.begin() + std::ptrdiff_t(i));
  }
  TrainingPhase& phase = profile.phases.emplace_back();
  for (const Region& region : profile.regions) {
    const bool is_dense = region.name == norm.name || region.name == bias.name;
    phase.routes[region.name] = is_dense ? kDenseRoute : route;
  }
  profile.health.warm_up_steps = kDefaultWarmUp;
  return profile;
}

Profile static_profile(std::string_view route) {
  Profile profile;
  profile.name = "static";
  profile.regions = {{.name = "all"}};
  profile.phases = {{.from_step = 0, .routes = {{"all", std::string(route)}}}};
  profile.health.warm_up_steps = 0;
  profile.smallest_parameter = 0;
  return profile;
}

}  // namespace nf
