#include <algorithm>

#include "neuron_fabric/binding.h"
#include "runtime/region_match.h"

namespace nf {
namespace {

// The module that owns the last matrix, as "classifier.1"; empty where that is the model itself or
// there is no matrix.
std::string head_module(std::span<const ModelParameter> parameters) {
  const auto last = std::find_if(parameters.rbegin(), parameters.rend(),
                                 [](const ModelParameter& one) { return one.rows > 0; });
  if (last == parameters.rend()) return "";
  const std::size_t dot = last->name.rfind('.');
  return dot == std::string::npos ? "" : last->name.substr(0, dot);
}

// How many parameters each region takes.
std::vector<std::size_t> taken(std::span<const Region> regions,
                               std::span<const ModelParameter> parameters) {
  std::vector<std::size_t> counts(regions.size(), 0);
  for (const ModelParameter& parameter : parameters) {
    if (const auto region = first_match(regions, parameter)) ++counts[*region];
  }
  return counts;
}

}  // namespace

Profile default_profile(std::span<const ModelParameter> parameters, std::string_view route) {
  const Region norm{.name = "norm", .module_types = {"*Norm*"}};
  const Region embedding{.name = "embedding", .module_types = {"*Embedding*"}};
  // The last two are those of attention and of recurrent layers: in_proj_bias, bias_ih_l0.
  const Region bias{.name = "bias", .names = {"*.bias", "bias", "*_bias", "*.bias_*"}};
  const Region head{.name = "head", .names = {head_module(parameters) + ".*"}};
  const Region backbone{.name = "backbone"};

  Profile profile;
  profile.name = "default";
  profile.regions = {norm, embedding, bias, head, backbone};
  // A head that leaves nothing behind it is no head.
  if (taken(profile.regions, parameters).back() == 0) std::erase(profile.regions, head);
  const std::vector<std::size_t> counts = taken(profile.regions, parameters);
  for (std::size_t i = counts.size() - 1; i-- > 0;) {
    if (counts[i] == 0) profile.regions.erase(profile.regions.begin() + std::ptrdiff_t(i));
  }
  TrainingPhase& phase = profile.phases.emplace_back();
  for (const Region& region : profile.regions) phase.routes[region.name] = kDenseRoute;
  phase.routes[backbone.name] = route;
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
