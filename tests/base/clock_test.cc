#include "base/clock.h"

#include <gtest/gtest.h>

namespace nf {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, MovesWhenTold) {
  ManualClock clock;
  EXPECT_EQ(clock.now(), 0ns);
  clock.advance(5ms);
  clock.advance(1ns);
  EXPECT_EQ(clock.now(), 5ms + 1ns);
}

TEST(SteadyClock, NeverGoesBack) {
  const SteadyClock clock;
  Duration last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Duration now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace nf
