// A simulated training run: profiles with short periods, healthy statistics unless a test changes
// them, and the order in which admission observes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/admission.h"

namespace nf {

inline constexpr std::uint32_t kRanks = 4;
inline constexpr Decision kAdmitted = {true, Reason::kAdmitted};
inline constexpr Decision kProbation = {true, Reason::kProbation};

inline Decision dense(Reason reason) { return {false, reason}; }

// `body` and `trunk` at low bits, `head` dense, with periods short enough to read a test.
inline Profile short_profile() {
  Profile profile;
  profile.name = "short";
  profile.regions = {Region{.name = "body", .names = {"body.*"}},
                     Region{.name = "trunk", .names = {"trunk.*"}},
                     Region{.name = "head", .names = {"head.*"}}};
  profile.phases = {
      {.from_step = 0,
       .routes = {{"body", "waterfill:4"}, {"trunk", "waterfill:5"}, {"head", "fp32"}}}};
  profile.health = {.warm_up_steps = 3,
                    .cool_down_steps = 5,
                    .probation_steps = 4,
                    .most_fallbacks = 2,
                    .lock_out_window_steps = 100};
  return profile;
}

// `body` is dense until step 10 and changes its codec at 20.
inline Profile phased_profile() {
  Profile profile = short_profile();
  const auto routes = [](const char* body) {
    return std::map<std::string, std::string>{
        {"body", body}, {"trunk", "waterfill:5"}, {"head", "fp32"}};
  };
  profile.phases = {{.from_step = 0, .routes = routes("fp32")},
                    {.from_step = 10, .routes = routes("waterfill:5")},
                    {.from_step = 20, .routes = routes("waterfill:3")}};
  return profile;
}

inline Binding bind(const Profile& profile) {
  std::vector<ModelParameter> parameters;
  for (const Region& region : profile.regions) {
    parameters.push_back({.name = region.name + ".weight",
                          .module_type = "Linear",
                          .count = 1 << 20,
                          .rows = 1 << 10});
  }
  Expected<Binding> binding = Binding::make(profile, parameters);
  EXPECT_TRUE(binding) << to_string(binding.status());
  return *std::move(binding);
}

inline StepStatistics healthy(std::uint64_t step) {
  StepStatistics statistics;
  statistics.step = step;
  statistics.regions.assign(3, {.energy = 1, .error_energy = 0.001, .sample_energy = 1});
  statistics.loss = 2;
  statistics.losses = kRanks;
  return statistics;
}

// A training run: the statistics of step t are observed before step t + 2 is decided.
class Training {
 public:
  explicit Training(const Profile& profile, std::uint32_t ranks = kRanks,
                    AdmissionMode mode = AdmissionMode::kMonitored)
      : binding_(bind(profile)), admission_(binding_, ranks, mode) {}

  // The statistics of `step`; healthy by default.
  StepStatistics& at(std::uint64_t step) {
    return statistics_.try_emplace(step, healthy(step)).first->second;
  }

  std::vector<Decision> next() {
    if (step_ >= 2) admission_.observe(at(step_ - 2));
    const auto decisions = admission_.decide(step_);
    step_ += 1;
    return {decisions.begin(), decisions.end()};
  }

  // The decisions for `body` in the next steps.
  std::vector<Decision> next(std::size_t steps) {
    std::vector<Decision> decisions;
    for (std::size_t i = 0; i < steps; ++i) decisions.push_back(next()[0]);
    return decisions;
  }

  Admission& admission() { return admission_; }
  std::uint64_t step() const { return step_; }

 private:
  Binding binding_;
  Admission admission_;
  std::map<std::uint64_t, StepStatistics> statistics_;
  std::uint64_t step_ = 0;
};

inline void make_non_finite(StepStatistics& statistics) { statistics.regions[0].non_finite = 1; }

}  // namespace nf
