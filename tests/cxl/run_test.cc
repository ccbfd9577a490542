// The overhead of the datapath, simulated and predicted by the closed formula, at 1 GHz.
#include "cxl/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace nf::cxl {
namespace {

Expected<RunResult> run_of(Mode mode, std::uint32_t workers, std::uint32_t lines,
                           std::uint32_t outstanding, unsigned repeats = 4,
                           Picoseconds latency = 150'000) {
  RunOptions options;
  options.repeats = repeats;
  options.timing.access_latency = latency;
  options.workload = {.mode = mode, .workers = workers, .lines = lines};
  options.host.outstanding = outstanding;
  return run(options);
}

// Five cycles of 150 or 300.
TEST(Run, ExposesTheStagesIfEveryAccessMisses) {
  for (const Mode mode : {Mode::kGBinary, Mode::kGTernary}) {
    for (const Picoseconds latency : {150'000, 300'000}) {
      const Expected<RunResult> result = run_of(mode, 8, 8'192, 1, 4, latency);
      ASSERT_TRUE(result);
      EXPECT_TRUE(result->correct);
      EXPECT_TRUE(result->formula.is_latency_bound);
      const double share = 5'000.0 / static_cast<double>(latency);
      EXPECT_LE(result->exposed_overhead(), share);
      EXPECT_GE(result->exposed_overhead(), 0.9 * share);
      EXPECT_LE(result->deviation(), 0.05);
      EXPECT_NEAR(result->cycles / result->formula.cycles, 1, 0.05);
    }
  }
}

TEST(Run, HidesTheDatapathUnderPressure) {
  for (const Mode mode : {Mode::kGBinary, Mode::kGTernary}) {
    const Expected<RunResult> result = run_of(mode, 8, 8'192, 128);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->correct);
    EXPECT_FALSE(result->formula.is_latency_bound);
    EXPECT_LE(result->exposed_overhead(), 0.001);
    EXPECT_LE(result->deviation(), 0.05);
  }
}

// Identity has so little memory traffic that more accesses are needed to keep link and memory busy.
TEST(Run, HidesTheDatapathOfIdentityIfTheQueueIsLongEnough) {
  RunOptions options;
  options.workload = {.mode = Mode::kIdentity, .workers = 8, .lines = 4'096};
  options.host.outstanding = options.timing.queue = 256;
  const Expected<RunResult> result = run(options);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->correct);
  EXPECT_LE(result->exposed_overhead(), 0.001);
  EXPECT_LE(result->deviation(), 0.05);
}

TEST(Run, IsCorrectForEveryModeAndManyWorkers) {
  for (const Mode mode : kModes) {
    for (const std::uint32_t workers : {1u, 2u, 3u, 16u, 64u}) {
      RunOptions options;
      options.workload = {.mode = mode, .workers = workers, .lines = 37};
      options.host = {.miss_rate = 0.5, .outstanding = 20};
      options.repeats = 1;
      const Expected<RunResult> result = run(options);
      ASSERT_TRUE(result);
      EXPECT_TRUE(result->correct) << to_string(mode) << ", " << workers;
      EXPECT_GT(result->dram_bytes, 0u);
    }
  }
}

float value_of(const Line& line, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes_of(line).data() + index * sizeof(value), sizeof(value));
  return value;
}

// The expectation of fp32 distinguishes worker order from other orders.
TEST(Run, ExpectsSumsInWorkerOrder) {
  const Workload workload({.mode = Mode::kFp32, .workers = 3, .lines = 64});
  const Expected<std::vector<Line>> expected = workload.expected_reads();
  ASSERT_TRUE(expected);
  ASSERT_EQ(expected->size(), 64u);
  int other_orders = 0;
  for (std::uint32_t line = 0; line < 64; ++line) {
    for (std::size_t i = 0; i < 16; ++i) {
      const float a = value_of(workload.written(0, line), i);
      const float b = value_of(workload.written(1, line), i);
      const float c = value_of(workload.written(2, line), i);
      ASSERT_TRUE(std::isfinite(a) && std::isfinite(b) && std::isfinite(c));
      EXPECT_EQ(value_of((*expected)[line], i), (a + b) + c);
      if ((a + b) + c != (c + b) + a) ++other_orders;
    }
  }
  EXPECT_GT(other_orders, 50);
}

TEST(Run, PredictsTheTimeOfBothRegimes) {
  for (const std::uint32_t outstanding : {1u, 128u}) {
    for (const std::uint32_t workers : {2u, 8u, 32u}) {
      const Expected<RunResult> result =
          run_of(Mode::kGBinary, workers, 65'536 / workers, outstanding, 1);
      ASSERT_TRUE(result);
      EXPECT_NEAR(result->cycles / result->formula.cycles, 1, 0.15)
          << workers << " workers, " << outstanding << " outstanding";
    }
  }
}

}  // namespace
}  // namespace nf::cxl
