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
  std::string name;         // qualified, such as "layer4.0.conv1.weight"
  std::string module_type;  // of its module, such as "Conv2d"
  std::size_t count = 0;    // values
  std::size_t rows = 0;     // of a matrix, otherwise 0
};

// The all-reduce of the engine.
inline constexpr std::string_view kDenseRoute = "fp32";

class Binding {
 public:
  // Fails with kBadConfig if the profile fails its check(), a parameter has no region, two
  // parameters have the same name, or a region with patterns has no parameter (the profile is for
  // another model). A region without patterns may be empty.
  static Expected<Binding> make(Profile profile, std::vector<ModelParameter> parameters);

  const Profile& profile() const { return profile_; }
  std::span<const ModelParameter> parameters() const { return parameters_; }

  // Index into profile().regions.
  std::uint32_t region_of(std::size_t parameter) const { return regions_[parameter]; }
  // Whether the parameter is always dense because it is too small.
  bool is_small(std::size_t parameter) const;

  // The route of a region in the profile at a step, if it is admitted.
  const std::string& route(std::uint32_t region, std::uint64_t step) const;
  // Index into profile().phases.
  std::size_t phase_at(std::uint64_t step) const;

  // Everything that must be equal on all ranks, for comparison: one line per setting, one per
  // region, and one per parameter with its count, rows, region and routes by phase. Without the
  // name of the profile and its provenance.
  std::string describe() const;
  // The hash of describe().
  std::uint64_t hash() const;

 private:
  Profile profile_;
  std::vector<ModelParameter> parameters_;
  std::vector<std::uint32_t> regions_;  // by parameter
};

// The default of attach(): norms and biases are dense, everything else uses `route`. The
// head is the module of the last matrix, unless that belongs to a repeated block, an adapter
// (LoRA), a recurrent layer or attention, or nothing else is left. Contains no empty region except
// the last one, so that it binds to `parameters`. Does not check `route`; Binding::make() does.
Profile default_profile(std::span<const ModelParameter> parameters,
                        std::string_view route = "waterfill:5");
// Every parameter on `route` from the first step.
Profile static_profile(std::string_view route);

}  // namespace nf
