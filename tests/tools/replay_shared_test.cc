#include "nf/replay/shared.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace nf::cli {
namespace {

TEST(ReplayShared, TimesTheWholeSumAndItsReduction) {
  for (const char* codec : {"g_binary", "g_ternary"}) {
    for (const std::uint64_t low_bit_values : {1u, 900u, 1000u}) {
      const BucketTraffic bucket{.step = 0, .values = 1000, .low_bit_values = low_bit_values};
      const auto sum = measure_shared_sum(codec, 3, bucket, 1);
      ASSERT_TRUE(sum) << sum.status().message();
      EXPECT_GT(sum->reduce, 0);
      EXPECT_GT(sum->whole, sum->reduce);
    }
  }
}

TEST(ReplayShared, UsesAnUnpredictableSharedMemoryName) {
  const std::string guess = fmt::format("/nf_replay_{}", getpid());
  const int file = shm_open(guess.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 1), 0);
  close(file);
  const BucketTraffic bucket{.step = 0, .values = 1000, .low_bit_values = 900};
  const auto sum = measure_shared_sum("g_binary", 2, bucket, 1);
  EXPECT_TRUE(sum) << sum.status().message();
  EXPECT_EQ(shm_unlink(guess.c_str()), 0) << "the object was removed";
}

TEST(ReplayShared, RejectsCodecsThatTheReducerDoesNotSupport) {
  const BucketTraffic bucket{.step = 0, .values = 1000, .low_bit_values = 900};
  const auto sum = measure_shared_sum("g_binary+majority", 2, bucket, 1);
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.status().code(), ErrorCode::kUnsupported);
}

TEST(ReplayShared, MeasuresNothingForDenseBuckets) {
  const BucketTrace dense{.name = "", .workers = 2, .buckets = {{.step = 0, .values = 9}}};
  const auto times = measure_shared_times("g_binary", 2, dense);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->whole.at(1e6), 0);
}

}  // namespace
}  // namespace nf::cli
