#include "cxl/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cxl/run.h"

namespace nf::cxl {
namespace {

Timing without_refresh() {
  Timing timing;
  timing.dram.refresh_interval = Picoseconds{1} << 60;
  return timing;
}

// Records the latency of every request.
class Latencies : public Observer {
 public:
  void on_request(std::uint64_t number, Picoseconds at) override { sent_[number] = at; }
  void on_answer(std::uint64_t number, const Answer& answer, Picoseconds at) override {
    EXPECT_EQ(answer.fault, Fault::kOk);
    latencies.push_back(at - sent_[number]);
  }
  std::vector<Picoseconds> latencies;

 private:
  std::map<std::uint64_t, Picoseconds> sent_;
};

TEST(Model, ReadsALineWithTheConfiguredLatency) {
  // A read of identity reads its line and the line of the record, in parallel from two channels or
  // one after the other.
  Timing timing = without_refresh();
  timing.stages = 0;
  const Workload workload({.mode = Mode::kIdentity, .workers = 1, .lines = 50});
  Latencies seen;
  Model model(timing, {}, workload, &seen);
  model.run();
  ASSERT_EQ(seen.latencies.size(), 100u);
  const auto reads = std::span(seen.latencies).subspan(50);
  const Picoseconds shortest = *std::min_element(reads.begin(), reads.end());
  EXPECT_GE(shortest, 150'000);
  EXPECT_LE(shortest, 151'000);  // rounded up to the next cycle
  EXPECT_LE(*std::max_element(reads.begin() + 10, reads.end()), 151'000 + 5'000);
}

TEST(Model, ExposesFiveCyclesOfALoneAccess) {
  for (const Mode mode : {Mode::kIdentity, Mode::kGBinary, Mode::kGTernary}) {
    for (const WriteOrder order : {WriteOrder::kApart, WriteOrder::kInStep}) {
      // In step, whether the arrivals of bytes are still queued depends on the datapath.
      if (order == WriteOrder::kInStep && !counts_digits(mode)) continue;
      const double clock = order == WriteOrder::kApart ? 0.5 : 2.0;
      const Workload workload({.mode = mode, .workers = 4, .lines = 100, .order = order});
      Timing timing = without_refresh();
      timing.clock_ghz = clock;
      Model with(timing, {}, workload);
      with.run();
      timing.stages = 0;
      Model without(timing, {}, workload);
      without.run();
      EXPECT_EQ(with.cycles() - without.cycles(), 5 * workload.requests()) << to_string(mode);
    }
  }
}

TEST(Model, SkipsOnlyIdleCycles) {
  for (const Mode mode : kModes) {
    for (const std::uint32_t outstanding : {1u, 3u, 40u}) {
      const Workload workload({.mode = mode, .workers = 5, .lines = 60});
      const HostOptions host{.miss_rate = 0.7, .outstanding = outstanding};
      Model fast({}, host, workload);
      fast.run();
      Model slow({}, host, workload);
      while (!slow.is_done()) slow.tick();
      EXPECT_EQ(fast.cycles(), slow.cycles()) << to_string(mode) << ", " << outstanding;
    }
  }
}

TEST(Model, CacheHitsWaitForTheCacheOnly) {
  const Workload workload({.workers = 2, .lines = 500});
  Model model(without_refresh(), {.miss_rate = 0}, workload);
  model.run();
  const double per_request =
      static_cast<double>(model.cycles()) / static_cast<double>(workload.requests());
  EXPECT_NEAR(per_request, 30, 1);
}

TEST(Model, KeepsRecordsThatAreReusedSoon) {
  RunOptions options;
  options.workload = {.workers = 8, .lines = 500};
  options.host.outstanding = 64;
  options.repeats = 1;
  const Expected<RunResult> apart = run(options);
  options.workload.order = WriteOrder::kInStep;
  const Expected<RunResult> in_step = run(options);
  ASSERT_TRUE(apart && in_step);
  EXPECT_TRUE(apart->correct && in_step->correct);
  EXPECT_LT(in_step->dram_bytes * 3, apart->dram_bytes);
}

// In step, the arrivals of a line are written once for all workers; every slot is written, and the
// slots of the others are read for the sum. Then every read reads the arrivals and the sum.
TEST(Model, SharesArrivalsOfBytesInStep) {
  RunOptions options;
  options.workload = {
      .mode = Mode::kFp32, .workers = 8, .lines = 500, .order = WriteOrder::kInStep};
  options.repeats = 1;
  const Expected<RunResult> alone = run(options);
  options.host.outstanding = 64;
  const Expected<RunResult> shared = run(options);
  ASSERT_TRUE(alone && shared);
  EXPECT_TRUE(shared->correct);
  const std::uint64_t slots = 8 + 7 + 1;  // of a line: written, read, and the sum
  EXPECT_LE(alone->dram_bytes, 64u * 500 * (slots + 8 * 2 + 2));
  EXPECT_GE(alone->dram_bytes, 64u * 500 * (slots + 7 * 2 + 2));
  EXPECT_GE(shared->dram_bytes, 64u * 500 * (slots + 2 + 2));
  EXPECT_LE(shared->dram_bytes, 64u * 500 * (slots + 4 + 2));
}

// Neighbouring reads share the arrivals, but each reads its own slot.
TEST(Model, ReadsEverySlotFromMemory) {
  RunOptions options;
  options.workload = {.mode = Mode::kIdentity, .workers = 8, .lines = 500};
  options.repeats = 1;
  options.host.outstanding = 64;
  const Expected<RunResult> result = run(options);
  ASSERT_TRUE(result);
  EXPECT_GE(result->dram_bytes, 64u * 500 * (8 * 2 + 8 + 1));  // writes, some arrivals, reads
}

TEST(Model, SendsAccumulatorTrafficToMemory) {
  // Eight workers: four planes and a line of arrivals are read and written for every gradient line;
  // then every read of a result reads the arrivals and a plane.
  RunOptions options;
  options.workload = {.workers = 8, .lines = 200};
  options.repeats = 1;
  const Expected<RunResult> result = run(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->dram_bytes, 64u * 200 * (8 * 2 * 5 + 4 * 2));
}

}  // namespace
}  // namespace nf::cxl
