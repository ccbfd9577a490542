#include "runtime/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/training_run.h"

namespace nf {
namespace {

// Random runs with breaches of every kind, changing usefulness, and two phases.

StepStatistics random_step(std::uint64_t step, std::mt19937& generator) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto happens = [&](double often) { return uniform(generator) < often; };
  StepStatistics statistics = healthy(step);
  for (RegionStatistics& region : statistics.regions) {
    region.energy = 0.5 + uniform(generator);
    region.error_energy = 0.02 * uniform(generator);
    if (happens(0.02)) region.non_finite = 1;
    if (happens(0.02)) region.energy *= 1e5;
    if (happens(0.02)) region.error_energy = 0.5;
    if (happens(0.2)) region.sample_energy = region.error_energy = 0;
    if (happens(0.1)) region.energy = 0;
  }
  statistics.loss = 1 + 0.1 * uniform(generator);
  if (happens(0.01)) statistics.loss = 30;
  if (happens(0.2)) statistics.losses = 0;
  if (happens(0.005)) statistics.capacity_breaches = 1;
  return statistics;
}

TEST(Admission, IsNeverLowBitInTheStepAfterABreachWasSeen) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 generator(seed);
    const Binding binding = bind(phased_profile());
    Admission admission(binding, kRanks);
    Monitor monitor(binding.profile());
    for (std::uint64_t step = 0; step < 600; ++step) {
      std::vector<std::optional<Reason>> breaches(3);
      if (step >= 2) {
        const StepStatistics statistics = random_step(step - 2, generator);
        breaches = monitor.observe(statistics);
        admission.observe(statistics);
      }
      if (generator() % 20 == 0) {
        admission.set_useful({generator() % 2 == 0, generator() % 2 == 0, true});
      }
      const std::vector<Decision> before(admission.decisions().begin(),
                                         admission.decisions().end());
      const auto decisions = admission.decide(step);
      for (std::size_t r = 0; r < decisions.size(); ++r) {
        if (!breaches[r]) continue;
        ASSERT_FALSE(decisions[r].is_low_bit) << "seed " << seed << ", step " << step;
        if (before[r].is_low_bit && decisions[r].reason != Reason::kAdmitted) {
          ASSERT_EQ(decisions[r].reason, *breaches[r]) << "seed " << seed << ", step " << step;
        }
      }
    }
  }
}

TEST(Admission, StaysLockedOutAndReachesEveryReasonInRandomRuns) {
  std::set<Reason> seen;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 generator(seed);
    const Binding binding = bind(short_profile());
    Admission admission(binding, kRanks);
    std::vector<bool> is_locked(3);
    for (std::uint64_t step = 0; step < 600; ++step) {
      if (step >= 2) admission.observe(random_step(step - 2, generator));
      if (generator() % 20 == 0) {
        admission.set_useful({generator() % 2 == 0, generator() % 2 == 0, true});
      }
      const auto decisions = admission.decide(step);
      for (std::size_t r = 0; r < decisions.size(); ++r) {
        seen.insert(decisions[r].reason);
        if (is_locked[r]) {
          ASSERT_EQ(decisions[r], dense(Reason::kLockedOut));
        }
        is_locked[r] = decisions[r].reason == Reason::kLockedOut;
        const bool is_low = decisions[r].reason == Reason::kProbation ||
                            (decisions[r].reason == Reason::kAdmitted && r != 2);
        ASSERT_EQ(decisions[r].is_low_bit, is_low);
      }
    }
  }
  EXPECT_EQ(seen.size(), 11u) << "all but forced";
}

// One instance runs without interruption; the other is saved and loaded into a new one at every
// step.
TEST(Admission, ContinuesWithTheSameDecisionsFromAnySavedState) {
  const Binding binding = bind(phased_profile());
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    std::mt19937 generator(100 + seed);
    Admission straight(binding, kRanks);
    std::string saved = Admission(binding, kRanks).state();
    for (std::uint64_t step = 0; step < 300; ++step) {
      Admission resumed(binding, kRanks);
      ASSERT_TRUE(resumed.load(saved).ok());
      if (step >= 2) {
        const StepStatistics statistics = random_step(step - 2, generator);
        straight.observe(statistics);
        resumed.observe(statistics);
        // Also between observe() and decide().
        ASSERT_TRUE(resumed.load(straight.state()).ok());
      }
      if (generator() % 20 == 0) {
        const std::vector<bool> useful = {generator() % 2 == 0, generator() % 2 == 0, true};
        straight.set_useful(useful);
        resumed.set_useful(useful);
      }
      straight.decide(step);
      resumed.decide(step);
      ASSERT_TRUE(std::ranges::equal(straight.decisions(), resumed.decisions()));
      ASSERT_TRUE(std::ranges::equal(straight.routes(), resumed.routes()));
      ASSERT_EQ(straight.epoch(), resumed.epoch());
      saved = resumed.state();
      ASSERT_EQ(saved, straight.state());
    }
  }
}

}  // namespace
}  // namespace nf
