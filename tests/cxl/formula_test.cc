// The closed formula, compared with hand calculations.
#include "cxl/formula.h"

#include <gtest/gtest.h>

#include <vector>

#include "cxl/run.h"

namespace nf::cxl {
namespace {

Timing without_refresh() {
  Timing timing;
  timing.dram.refresh_interval = Picoseconds{1} << 60;
  return timing;
}

TEST(Formula, ExposesTheStagesOfALoneAccess) {
  // Read-back of identity with one worker: a write waits for the line of the record, a read for
  // that line and its own, from two channels.
  const Timing timing = without_refresh();
  const Workload workload({.mode = Mode::kIdentity, .workers = 1, .lines = 10});
  const Prediction prediction = predict(timing, {}, workload);
  EXPECT_TRUE(prediction.is_latency_bound);
  // Serialisation takes 2.698 + 0.270 ns for a write and its answer, 0.540 + 2.698 for a read.
  const double write = 150'000 - 540 + 270 + 500;
  const double read = 150'000 + 500;
  EXPECT_NEAR(prediction.baseline_cycles, 10 * (write + read) / 1000, 0.1);
  EXPECT_NEAR(prediction.cycles - prediction.baseline_cycles, 5 * 20, 1e-6);
}

TEST(Formula, CountsMissesOnly) {
  const Timing timing = without_refresh();
  const Workload workload({.workers = 4, .lines = 100});
  const Prediction all = predict(timing, {.miss_rate = 1}, workload);
  const Prediction half = predict(timing, {.miss_rate = 0.5}, workload);
  const Prediction none = predict(timing, {.miss_rate = 0}, workload);
  EXPECT_NEAR(half.cycles, (all.cycles + none.cycles) / 2, 1e-6);
  EXPECT_NEAR(none.cycles, 30.0 * static_cast<double>(workload.requests()), 1e-6);
  EXPECT_EQ(none.overhead(), 0);
}

TEST(Formula, HidesTheStagesIfMemoryIsBusy) {
  const Timing timing;
  const Workload workload({.workers = 8, .lines = 1000});
  const Prediction prediction = predict(timing, {.outstanding = 128}, workload);
  EXPECT_FALSE(prediction.is_latency_bound);
  EXPECT_NEAR(prediction.cycles - prediction.baseline_cycles, 5, 1e-6);
}

TEST(Formula, SharesRecordsAmongWorkersInStep) {
  const Timing timing;
  const double apart = service_times(timing, Mode::kGBinary, 8, WriteOrder::kApart).write;
  const double in_step = service_times(timing, Mode::kGBinary, 8, WriteOrder::kInStep).write;
  EXPECT_NEAR(apart, 9.15e-9, 0.01e-9);    // memory: ten lines
  EXPECT_NEAR(in_step, 2.70e-9, 0.01e-9);  // the link
}

TEST(Formula, HidesTheAddersOfFp32BehindTheMemory) {
  Timing timing;
  timing.clock_ghz = 2;
  const auto overhead = [&](WriteOrder order) {
    const Workload workload({.mode = Mode::kFp32, .workers = 8, .lines = 4096, .order = order});
    return predict(timing, {.outstanding = 128}, workload).overhead();
  };
  EXPECT_LT(overhead(WriteOrder::kInStep), 0.0001);
  // Apart, every write completes a line at the end: 16 cycles, while memory takes 20 for its lines.
  EXPECT_LT(overhead(WriteOrder::kApart), 0.0001);
  timing.clock_ghz = 1;  // memory takes 10
  EXPECT_GT(overhead(WriteOrder::kApart), 0.01);
}

TEST(Formula, PredictsWhenLinesAreCompleted) {
  for (const WriteOrder order : {WriteOrder::kApart, WriteOrder::kInStep}) {
    const Workload workload({.workers = 5, .lines = 997, .order = order});
    std::vector<unsigned> arrivals(997);
    std::vector<double> completed{0};  // by number of writes
    for (std::uint64_t number = 0; number < workload.writes(); ++number) {
      const bool is_last = ++arrivals[workload.step(number).line] == 5;
      completed.push_back(completed.back() + (is_last ? 1 : 0));
    }
    double left = static_cast<double>(workload.writes());
    double expected = 997;
    for (const Workload::Stretch& stretch : workload.stretches()) {  // from the last one backwards
      EXPECT_NEAR(completed[static_cast<std::size_t>(left)], expected, 5);
      left -= stretch.writes;
      expected -= stretch.writes * stretch.completing;
    }
    EXPECT_NEAR(left, 0, 1e-6);
    EXPECT_NEAR(expected, 0, 1e-6);
  }
}

TEST(Formula, PredictsTheModelOfFp32InStep) {
  RunOptions options;
  options.workload = {
      .mode = Mode::kFp32, .workers = 8, .lines = 2048, .order = WriteOrder::kInStep};
  options.host.outstanding = options.timing.queue = 256;
  options.repeats = 1;
  const Expected<RunResult> result = run(options);
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->cycles / result->formula.cycles, 1, 0.01);
  EXPECT_LE(result->deviation(), 0.05);
}

TEST(Formula, WaitsForTheAddersOfFp32) {
  // At a clock so slow that only the datapath matters: one fold of seven additions in eight writes.
  Timing timing;
  timing.clock_ghz = 0.001;
  const double write = service_times(timing, Mode::kFp32, 8, WriteOrder::kApart).write;
  EXPECT_NEAR(write, 1e-6 * (8 + 1 + 2 * 7) / 8, 1e-12);
}

}  // namespace
}  // namespace nf::cxl
