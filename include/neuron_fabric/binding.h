// A profile resolved against one model: every parameter has a region and, at every step, a route.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/profile.h"
#include "neuron_fabric/status.h"

namespace nf {

struct ModelParameter {
  std::string name;         // qualified, as "layer4.0.conv1.weight"
  std::string module_type;  // of the module that owns it, as "Conv2d"
  std::size_t count = 0;    // values
  std::size_t rows = 0;     // of a matrix; 0 for anything else
};

// The codec spelled "fp32": the engine's own all-reduce.
inline constexpr std::string_view kDenseRoute = "fp32";

class Binding {
 public:
  // Fails with kBadConfig where the profile fails its check(), a parameter has no region, a region
  // with patterns no parameter (the profile is for another model), or two parameters one name. A
  // region without patterns, the rest, may be empty.
  static Expected<Binding> make(Profile profile, std::vector<ModelParameter> parameters);

  const Profile& profile() const { return profile_; }
  std::span<const ModelParameter> parameters() const { return parameters_; }

  // Index into profile().regions.
  std::uint32_t region_of(std::size_t parameter) const { return regions_[parameter]; }
  // Dense whatever the route of its region: too small.
  bool is_small(std::size_t parameter) const;

  // The route that the profile gives a region at a step, were it admitted.
  const std::string& route(std::uint32_t region, std::uint64_t step) const;
  // Index into profile().phases.
  std::size_t phase_at(std::uint64_t step) const;

  // Everything that ranks must share, for them to compare: one line a setting, then one a region,
  // then one a parameter with its count, rows, region and routes by phase. The name of the profile
  // and its provenance are left out.
  std::string describe() const;
  // Of describe().
  std::uint64_t hash() const;

 private:
  Profile profile_;
  std::vector<ModelParameter> parameters_;
  std::vector<std::uint32_t> regions_;  // by parameter
};

// What attach() takes without a profile: heads, norms, biases and embeddings dense, the rest on
// `route`. The head is the module of the last matrix, unless that is in one of several like blocks,
// an adapter (LoRA), a recurrent layer or attention, or is all there is. Has no region that takes
// nothing but the rest, so that it binds to `parameters`. A route that is none fails there.
Profile default_profile(std::span<const ModelParameter> parameters,
                        std::string_view route = "waterfill:5");
// Every parameter on `route` from the first step.
Profile static_profile(std::string_view route);

}  // namespace nf
