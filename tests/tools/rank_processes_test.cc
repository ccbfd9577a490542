#include "nf/bench/rank_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace nf::cli {
namespace {

TEST(RankProcesses, ReturnTheSamplesOfEveryRank) {
  const auto all = run_rank_processes(3, 2, [](std::uint32_t rank, std::span<double> samples) {
    samples[0] = rank;
    samples[1] = getpid();
    return Status();
  });
  ASSERT_TRUE(all) << all.status().message();
  std::vector<double> processes{static_cast<double>(getpid())};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ((*all)[rank][0], rank);
    EXPECT_EQ(std::count(processes.begin(), processes.end(), (*all)[rank][1]), 0);
    processes.push_back((*all)[rank][1]);
  }
}

TEST(RankProcesses, RunInSeparateSessions) {
  const auto all = run_rank_processes(2, 1, [](std::uint32_t, std::span<double> samples) {
    samples[0] = getsid(0) == getpid() ? 1 : 0;
    return Status();
  });
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, (std::vector<std::vector<double>>{{1}, {1}}));
}

TEST(RankProcesses, ReportTheLowestFailedRank) {
  const auto all = run_rank_processes(3, 0, [](std::uint32_t rank, std::span<double>) {
    return rank == 0 ? Status() : Status(ErrorCode::kPeerLost, rank == 1 ? "one" : "two");
  });
  ASSERT_FALSE(all);
  EXPECT_EQ(all.status().code(), ErrorCode::kPeerLost);
  EXPECT_EQ(all.status().message(), "one");
}

TEST(RankProcesses, ReportExceptions) {
  const auto all = run_rank_processes(2, 1, [](std::uint32_t rank, std::span<double>) {
    if (rank == 1) throw std::bad_alloc();
    return Status();
  });
  ASSERT_FALSE(all);
  EXPECT_EQ(all.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(all.status().message(), "rank 1 is out of memory");
}

TEST(RankProcesses, ReportKilledProcesses) {
  const auto all = run_rank_processes(2, 0, [](std::uint32_t rank, std::span<double>) {
    if (rank == 1) raise(SIGKILL);
    return Status();
  });
  ASSERT_FALSE(all);
  EXPECT_EQ(all.status().message(), "the process of rank 1 was killed by signal 9");
}

}  // namespace
}  // namespace nf::cli
