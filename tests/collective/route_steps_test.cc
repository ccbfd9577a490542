#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/host_groups.h"
#include "collective/route_memory.h"

namespace nf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MemoryEntry entry(std::uint64_t parameter) { return {.parameter = parameter, .kind = "residual"}; }

TEST(RouteSteps, ContinueInConsecutiveStepsOnly) {
  RouteSteps steps;
  EXPECT_FALSE(steps.begin(1, 5));
  EXPECT_TRUE(steps.begin(1, 6));
  EXPECT_FALSE(steps.begin(1, 8));
  EXPECT_FALSE(steps.begin(2, 8)) << "parameters are independent";
  EXPECT_TRUE(steps.begin(1, 9));
}

TEST(RouteSteps, DropEntriesOlderThanTheLastStep) {
  RouteSteps steps;
  steps.begin(1, 5);
  steps.begin(2, 6);
  EXPECT_THAT(steps.current({entry(1), entry(2), entry(3)}, 7), ElementsAre(entry(2)));
  EXPECT_THAT(steps.current({entry(1), entry(2)}, 6), ElementsAre(entry(1), entry(2)));
  EXPECT_THAT(steps.current({entry(1), entry(2)}, 8), IsEmpty());
}

TEST(RouteSteps, ContinueAfterALoad) {
  for (const std::uint64_t step : {0u, 1u, 7u}) {
    RouteSteps steps;
    const MemoryEntry entries[] = {entry(1)};
    steps.loaded(entries, step);
    EXPECT_THAT(steps.current({entry(1)}, step), ElementsAre(entry(1)));
    EXPECT_TRUE(steps.begin(1, step));
  }
}

TEST(RouteSteps, FindTheParametersOfAStep) {
  RouteSteps steps;
  steps.begin(1, 5);
  steps.begin(2, 5);
  steps.begin(2, 6);
  EXPECT_THAT(steps.parameters_of(5), ElementsAre(1));
  EXPECT_THAT(steps.parameters_of(6), ElementsAre(2));
}

TEST(RouteMemory, IsKeptByErrorFeedbackAndPowersgd) {
  EXPECT_TRUE(has_route_memory("waterfill:4+ef"));
  EXPECT_TRUE(has_route_memory("waterfill:4+rms"));
  EXPECT_TRUE(has_route_memory("powersgd:2"));
  EXPECT_FALSE(has_route_memory("waterfill:4"));
  EXPECT_FALSE(has_route_memory("no such codec"));
}

TEST(HostGroups, AreConsecutiveRanks) {
  EXPECT_THAT(host_group_of(0, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(host_group_of(5, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(same_position(5, 3, 9), ElementsAre(2, 5, 8));
  EXPECT_THAT(same_position(0, 1, 3), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace nf
