#include "runtime/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "runtime/training_run.h"

namespace nf {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(Admission, AdmitsARegionAfterWarmUp) {
  Training run(short_profile());
  EXPECT_THAT(run.next(5), ElementsAre(dense(Reason::kWarmUp), dense(Reason::kWarmUp),
                                       dense(Reason::kWarmUp), kAdmitted, kAdmitted));
}

TEST(Admission, AdmitsFromTheFirstStepWithoutWarmUp) {
  Profile profile = short_profile();
  profile.health.warm_up_steps = 0;
  Training run(profile);
  EXPECT_THAT(run.next(2), Each(kAdmitted));
}

TEST(Admission, HasNothingToAdmitIfTheRouteIsDense) {
  Training run(short_profile());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(run.next()[2], dense(Reason::kAdmitted));
}

TEST(Admission, FallsBackTwoStepsAfterTheBreachAndRecoversThroughProbation) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  EXPECT_THAT(run.next(3), Each(dense(Reason::kWarmUp)));
  EXPECT_THAT(run.next(4), Each(kAdmitted));  // 3 to 6
  EXPECT_THAT(run.next(5), ElementsAre(dense(Reason::kNonFinite), dense(Reason::kCoolDown),
                                       dense(Reason::kCoolDown), dense(Reason::kCoolDown),
                                       dense(Reason::kCoolDown)));  // 7 to 11
  EXPECT_THAT(run.next(4), Each(kProbation));                       // 12 to 15
  EXPECT_THAT(run.next(4), Each(kAdmitted));
}

TEST(Admission, LeavesOtherRegionsAlone) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  while (run.step() < 7) run.next();
  EXPECT_THAT(run.next(),
              ElementsAre(dense(Reason::kNonFinite), kAdmitted, dense(Reason::kAdmitted)));
}

TEST(Admission, NamesTheCauseOfEachFallback) {
  const std::vector<std::pair<Reason, void (*)(StepStatistics&)>> causes = {
      {Reason::kNonFinite, [](StepStatistics& s) { s.regions[0].non_finite = 2; }},
      {Reason::kNormSpike, [](StepStatistics& s) { s.regions[0].energy = 1e4; }},
      {Reason::kLossSpike, [](StepStatistics& s) { s.loss = 50; }},
      {Reason::kErrorBudget, [](StepStatistics& s) { s.regions[0].error_energy = 0.2; }},
      {Reason::kCapacity, [](StepStatistics& s) { s.capacity_breaches = 1; }},
  };
  for (const auto& [reason, cause] : causes) {
    Training run(short_profile());
    cause(run.at(20));
    EXPECT_EQ(run.next(22).back(), kAdmitted);
    EXPECT_THAT(run.next(3),
                ElementsAre(dense(reason), dense(Reason::kCoolDown), dense(Reason::kCoolDown)))
        << to_string(reason);
  }
}

TEST(Admission, FallsBackInAllLowBitRegionsWhenTheLossJumps) {
  Training run(short_profile());
  run.at(20).loss = std::numeric_limits<double>::infinity();
  while (run.step() < 22) run.next();
  EXPECT_THAT(run.next(), ElementsAre(dense(Reason::kLossSpike), dense(Reason::kLossSpike),
                                      dense(Reason::kAdmitted)));
}

TEST(Admission, UsesOnlyTheSumIfNothingWasReduced) {
  Training run(short_profile());
  for (std::uint64_t step = 0; step < 40; ++step) {
    StepStatistics& statistics = run.at(step);
    statistics.losses = 0;
    statistics.loss = 1e9;
    for (RegionStatistics& region : statistics.regions) {
      region.error_energy = region.sample_energy = 0;
    }
  }
  make_non_finite(run.at(20));
  EXPECT_EQ(run.next(22).back(), kAdmitted);
  EXPECT_EQ(run.next(1)[0], dense(Reason::kNonFinite));
}

TEST(Admission, StartsACoolDownAgainWithoutCountingAnotherFallback) {
  Profile profile = short_profile();
  profile.health.most_fallbacks = 1;
  Training run(profile);
  // Every step has a breach until 14: dense from 7, restarted up to step 16.
  for (std::uint64_t step = 5; step <= 14; ++step) make_non_finite(run.at(step));
  run.next(7);
  EXPECT_EQ(run.next(1)[0], dense(Reason::kNonFinite));
  EXPECT_THAT(run.next(13), Each(dense(Reason::kCoolDown)));  // 8 to 20
  EXPECT_THAT(run.next(4), Each(kProbation));
  EXPECT_THAT(run.next(4), Each(kAdmitted));
}

TEST(Admission, FallsBackFromProbationAtOneBreach) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  run.at(12).regions[0].error_energy = 1;
  run.next(12);
  EXPECT_THAT(run.next(3), ElementsAre(kProbation, kProbation, dense(Reason::kErrorBudget)));
  EXPECT_THAT(run.next(4), Each(dense(Reason::kCoolDown)));
  EXPECT_THAT(run.next(4), Each(kProbation)) << "probation starts again";
  EXPECT_THAT(run.next(1), Each(kAdmitted));
}

TEST(Admission, LocksOutAfterMoreFallbacksThanAllowed) {
  Training run(short_profile());
  for (const std::uint64_t step : {5, 12, 19}) make_non_finite(run.at(step));
  run.next(7);
  EXPECT_EQ(run.next(7).front(), dense(Reason::kNonFinite));
  EXPECT_EQ(run.next(7).front(), dense(Reason::kNonFinite));
  EXPECT_EQ(run.next(1)[0], dense(Reason::kNonFinite)) << "the third reports its cause, too";
  EXPECT_THAT(run.next(300), Each(dense(Reason::kLockedOut)));
}

TEST(Admission, ForgetsFallbacksThatAreOlderThanTheWindow) {
  Profile profile = short_profile();
  profile.health.lock_out_window_steps = 14;
  Training run(profile);
  for (std::uint64_t step = 5; step < 200; step += 7) make_non_finite(run.at(step));
  for (int i = 0; i < 200; ++i) ASSERT_NE(run.next()[0].reason, Reason::kLockedOut) << i;

  profile.health.lock_out_window_steps = 15;
  Training other(profile);
  for (std::uint64_t step = 5; step < 200; step += 7) make_non_finite(other.at(step));
  EXPECT_EQ(other.next(40).back(), dense(Reason::kLockedOut));
}

TEST(Admission, LocksOutAtTheFirstFallbackIfNoneIsAllowed) {
  Profile profile = short_profile();
  profile.health.most_fallbacks = 0;
  Training run(profile);
  make_non_finite(run.at(5));
  run.next(7);
  EXPECT_THAT(run.next(3), ElementsAre(dense(Reason::kNonFinite), dense(Reason::kLockedOut),
                                       dense(Reason::kLockedOut)));
}

TEST(Admission, HoldsBackARegionWithABreachDuringWarmUp) {
  Training run(short_profile());
  make_non_finite(run.at(1));
  EXPECT_THAT(run.next(3), Each(dense(Reason::kWarmUp)));
  // Observed before step 3: dense for ten steps first.
  EXPECT_THAT(run.next(10), Each(dense(Reason::kNonFinite)));
  EXPECT_THAT(run.next(5), Each(kAdmitted)) << "not a fallback: no probation";
}

TEST(Admission, IgnoresABreachEarlyInALongWarmUp) {
  Profile profile = short_profile();
  profile.health.warm_up_steps = 20;
  Training run(profile);
  for (std::uint64_t step = 0; step < 5; ++step) make_non_finite(run.at(step));
  EXPECT_THAT(run.next(20), Each(dense(Reason::kWarmUp)));
  EXPECT_THAT(run.next(1), Each(kAdmitted));
}

TEST(Admission, NeverAdmitsARouteThatIsAlwaysOverItsBudget) {
  Training run(short_profile());
  for (std::uint64_t step = 0; step < 100; ++step) run.at(step).regions[0].error_energy = 1;
  EXPECT_THAT(run.next(3), Each(dense(Reason::kWarmUp)));
  EXPECT_THAT(run.next(90), Each(dense(Reason::kErrorBudget)));
}

TEST(Admission, KeepsARegionDenseThatIsNotUseful) {
  Training run(short_profile());
  run.admission().set_useful({false, true, true});
  EXPECT_THAT(run.next(3), Each(dense(Reason::kWarmUp)));
  EXPECT_THAT(run.next(),
              ElementsAre(dense(Reason::kNotUseful), kAdmitted, dense(Reason::kAdmitted)));
  run.admission().set_useful({true, false, true});
  EXPECT_THAT(run.next(),
              ElementsAre(kAdmitted, dense(Reason::kNotUseful), dense(Reason::kAdmitted)));
}

TEST(Admission, CountsNoFallbackOfARegionThatIsNotUseful) {
  Profile profile = short_profile();
  profile.health.most_fallbacks = 0;
  Training run(profile);
  run.admission().set_useful({false, true, true});
  make_non_finite(run.at(5));
  EXPECT_EQ(run.next(8).back(), dense(Reason::kNotUseful));
  run.admission().set_useful({true, true, true});
  // Observed before step 7: dense until 17.
  EXPECT_THAT(run.next(9), Each(dense(Reason::kNonFinite)));
  EXPECT_EQ(run.next(1)[0], kAdmitted);
}

TEST(Admission, LetsProbationWaitUntilTheRegionIsUseful) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  run.next(8);
  run.admission().set_useful({false, true, true});
  EXPECT_THAT(run.next(4), Each(dense(Reason::kCoolDown)));
  EXPECT_THAT(run.next(20), Each(dense(Reason::kNotUseful)));
  run.admission().set_useful({true, true, true});
  EXPECT_THAT(run.next(2), Each(kProbation));
  run.admission().set_useful({false, true, true});
  EXPECT_THAT(run.next(3), Each(dense(Reason::kNotUseful)));
  run.admission().set_useful({true, true, true});
  EXPECT_THAT(run.next(3), ElementsAre(kProbation, kProbation, kAdmitted));
}

TEST(Admission, NeverUsesLowBitsIfTheReducerHasTooFewCounters) {
  Profile profile = short_profile();
  profile.reducer.most_workers = kRanks - 1;
  Training run(profile);
  EXPECT_THAT(run.next(50), Each(dense(Reason::kCapacity)));
  EXPECT_EQ(run.next()[2], dense(Reason::kAdmitted));

  profile.reducer.most_workers = kRanks;
  Training fits(profile);
  EXPECT_EQ(fits.next(10).back(), kAdmitted);
}

TEST(Admission, FollowsThePhasesOfTheProfile) {
  Training run(phased_profile());
  EXPECT_THAT(run.next(10), Each(dense(Reason::kAdmitted)));
  EXPECT_EQ(run.admission().routes()[0], "fp32");
  EXPECT_THAT(run.next(10), Each(kAdmitted));
  EXPECT_EQ(run.admission().routes()[0], "waterfill:5");
  EXPECT_THAT(run.next(1), Each(kAdmitted));
  EXPECT_EQ(run.admission().routes()[0], "waterfill:3");
}

TEST(Admission, KeepsItsStateWhenThePhaseChangesTheCodec) {
  Training run(phased_profile());
  make_non_finite(run.at(16));
  run.next(18);
  EXPECT_THAT(run.next(5), ElementsAre(dense(Reason::kNonFinite), dense(Reason::kCoolDown),
                                       dense(Reason::kCoolDown), dense(Reason::kCoolDown),
                                       dense(Reason::kCoolDown)));
  EXPECT_THAT(run.next(4), Each(kProbation));
  EXPECT_THAT(run.next(1), Each(kAdmitted));
}

TEST(Admission, CoolsDownWhileThePhaseIsDense) {
  Profile profile = phased_profile();
  std::swap(profile.phases[0].routes, profile.phases[1].routes);
  Training run(profile);
  make_non_finite(run.at(8));
  EXPECT_EQ(run.next(10).back(), kAdmitted);
  EXPECT_THAT(run.next(10), Each(dense(Reason::kAdmitted)));
  EXPECT_THAT(run.next(5), ElementsAre(kProbation, kProbation, kProbation, kProbation, kAdmitted));
}

TEST(Admission, ForcesEveryRegionOntoItsRoute) {
  Profile profile = short_profile();
  profile.reducer.most_workers = 1;
  Training run(profile, kRanks, AdmissionMode::kForced);
  run.admission().set_useful({false, false, false});
  for (std::uint64_t step = 0; step < 50; ++step) make_non_finite(run.at(step));
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(run.next(), ElementsAre(Decision{true, Reason::kForced},
                                        Decision{true, Reason::kForced}, dense(Reason::kForced)));
  }
  EXPECT_EQ(run.admission().epoch(), 0u);
  EXPECT_THAT(run.admission().routes(), ElementsAre("waterfill:4", "waterfill:5", "fp32"));
}

TEST(Admission, IncrementsTheEpochForEveryChange) {
  Training run(short_profile());
  make_non_finite(run.at(5));
  std::vector<std::uint64_t> epochs;
  for (int i = 0; i < 18; ++i) {
    run.next();
    epochs.push_back(run.admission().epoch());
  }
  EXPECT_THAT(epochs, ElementsAre(0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5));
}

TEST(Admission, IncrementsTheEpochIfOnlyTheRouteChanges) {
  Training run(phased_profile());
  run.next(20);
  const std::uint64_t before = run.admission().epoch();
  run.next();
  EXPECT_EQ(run.admission().epoch(), before + 1);
  EXPECT_EQ(run.admission().decisions()[0], kAdmitted);
}

TEST(Admission, NeedsNoMoreThanOneStepOfCoolDownAndNoProbation) {
  Profile profile = short_profile();
  profile.health.cool_down_steps = 1;
  profile.health.probation_steps = 0;
  Training run(profile);
  make_non_finite(run.at(5));
  run.next(7);
  EXPECT_THAT(run.next(3), ElementsAre(dense(Reason::kNonFinite), kAdmitted, kAdmitted));
}

}  // namespace
}  // namespace nf
