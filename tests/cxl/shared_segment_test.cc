// The rendezvous of ranks in shared memory, and the lifetime of its name.
#include "cxl/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

namespace nf::cxl {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

SegmentOptions unique_options(std::uint32_t ranks) {
  static std::atomic<int> count = 0;
  return {.name = "segment_test_" + std::to_string(getpid()) + "_" + std::to_string(count++),
          .ranks = ranks,
          .bytes = 4096};
}

SegmentOptions of_rank(SegmentOptions options, std::uint32_t rank) {
  options.rank = rank;
  return options;
}

// A rank in its own thread.
class Rank {
 public:
  Rank(const SegmentOptions& options, std::uint32_t rank)
      : status_(std::async(std::launch::async, [=, this] {
          const auto begin = std::chrono::steady_clock::now();
          Status status = segment_.join(of_rank(options, rank));
          took_ = std::chrono::steady_clock::now() - begin;
          return status;
        })) {}

  Status joined() { return status_.get(); }
  SharedSegment& segment() { return segment_; }
  std::chrono::steady_clock::duration took() const { return took_; }  // after joined()

 private:
  SharedSegment segment_;
  std::chrono::steady_clock::duration took_{};
  std::future<Status> status_;
};

bool has_name(const std::string& name) {
  const int file = shm_open(("/" + name).c_str(), O_RDWR, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

// Waits until `joined` ranks have joined rank 0.
void wait_for_joined(const std::string& name, std::uint32_t joined) {
  int file = -1;
  struct stat found = {};
  while (found.st_size == 0) {
    if (file >= 0) close(file);
    file = shm_open(("/" + name).c_str(), O_RDWR, 0600);
    if (file >= 0) fstat(file, &found);
    std::this_thread::sleep_for(milliseconds(1));
  }
  void* memory = mmap(nullptr, header_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto* header = static_cast<SegmentHeader*>(memory);
  while (header->magic.load() == 0 || header->joined.load() < joined) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  munmap(memory, header_bytes());
  close(file);
}

// Starts a process that runs `work` and exits with its result.
pid_t start(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  return child;
}

int exit_code(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

// Runs a rank 0 that dies while it waits for the others. Its name stays.
void die_waiting(const SegmentOptions& options) {
  const pid_t child = start([&] { return SharedSegment().join(options).ok() ? 0 : 1; });
  wait_for_joined(options.name, 0);
  kill(child, SIGKILL);
  EXPECT_EQ(exit_code(child), 256 + SIGKILL);
  EXPECT_TRUE(has_name(options.name));
}

TEST(SharedSegment, ReportsADeadRank0ToWaitingRanks) {
  const SegmentOptions options = unique_options(3);
  const pid_t child = start([&] { return SharedSegment().join(options).ok() ? 0 : 1; });
  Rank one(options, 1);
  wait_for_joined(options.name, 1);
  kill(child, SIGKILL);
  exit_code(child);
  const Status status = one.joined();
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("rank 0 is gone"));
  EXPECT_LT(one.took(), options.timeout / 2);
  shm_unlink(("/" + options.name).c_str());
}

TEST(SharedSegment, ReusesTheNameOfADeadJob) {
  SegmentOptions options = unique_options(3);
  die_waiting(options);
  options.ranks = 2;
  options.bytes *= 3;
  Rank one(options, 1);  // may start before rank 0 has created the segment
  std::this_thread::sleep_for(milliseconds(50));
  Rank zero(options, 0);
  const Status first = zero.joined();
  const Status second = one.joined();
  EXPECT_TRUE(first.ok()) << first.message();
  EXPECT_TRUE(second.ok()) << second.message();
  EXPECT_FALSE(has_name(options.name));
}

TEST(SharedSegment, KeepsTheNameOfALivingJob) {
  const SegmentOptions options = unique_options(2);
  Rank zero(options, 0);
  wait_for_joined(options.name, 0);
  const Status rejected = SharedSegment().join(options);
  EXPECT_EQ(rejected.code(), ErrorCode::kDisagreement);
  EXPECT_THAT(rejected.message(), HasSubstr("another job with this name"));
  Rank one(options, 1);
  EXPECT_TRUE(zero.joined().ok());
  EXPECT_TRUE(one.joined().ok());
  // The name is free again while the first job continues.
  EXPECT_TRUE(SharedSegment().join({.name = options.name, .bytes = 4096}).ok());
}

TEST(SharedSegment, RemovesTheNameIfThereIsTooLittleMemory) {
  SegmentOptions options = unique_options(2);
  options.bytes = std::size_t{1} << 50;
  const Status status = SharedSegment().join(options);
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("cannot allocate"));
  EXPECT_FALSE(has_name(options.name));
}

// There is enough memory but no address space.
TEST(SharedSegment, RemovesTheNameIfTheSegmentCannotBeMapped) {
  SegmentOptions options = unique_options(2);
  options.bytes = std::size_t{32} << 20;
  const int code = exit_code(start([&] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<std::size_t>(getpagesize()) + (8 << 20);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    const Status status = SharedSegment().join(options);
    return status.message().find("cannot map") != std::string::npos ? 0 : 2;
  }));
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(has_name(options.name));
}

TEST(SharedSegment, ReportsTheErrorToLateRanks) {
  const SegmentOptions options = unique_options(3);
  SegmentOptions other = options;
  other.bytes *= 2;
  Rank zero(options, 0);
  Rank one(other, 1);
  EXPECT_EQ(one.joined().code(), ErrorCode::kDisagreement);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_TRUE(has_name(options.name));
  Rank two(options, 2);
  EXPECT_EQ(two.joined().code(), ErrorCode::kDisagreement);
  EXPECT_EQ(zero.joined().code(), ErrorCode::kDisagreement);
  EXPECT_LT(zero.took(), options.timeout / 2);
  EXPECT_FALSE(has_name(options.name));
}

// A data loader worker can outlive the rank that started it.
TEST(SharedSegment, DetectsADeadRankWithALivingChild) {
  const SegmentOptions options = unique_options(2);
  int until[2];  // the grandchild lives until the test closes this
  ASSERT_EQ(pipe(until), 0);
  const pid_t child = start([&] {
    SharedSegment segment;
    if (!segment.join(of_rank(options, 1)).ok() || !segment.barrier().ok()) return 1;
    ::close(until[1]);
    char byte = 0;
    if (fork() == 0) _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
    return segment.barrier().ok() ? 7 : 2;  // the child does not release the lock of its parent
  });
  Rank zero(options, 0);
  ASSERT_TRUE(zero.joined().ok());
  EXPECT_TRUE(zero.segment().barrier().ok());
  EXPECT_TRUE(zero.segment().barrier().ok());
  EXPECT_EQ(exit_code(child), 7);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = zero.segment().barrier();
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << status.message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, options.timeout / 2);
  ::close(until[0]);
  ::close(until[1]);
}

// In the child of a rank, the file number of the segment may belong to another file.
TEST(SharedSegment, DoesNotCloseOtherFilesInAChild) {
  SharedSegment segment;
  ASSERT_TRUE(segment.join(unique_options(1)).ok());
  const int code = exit_code(start([&] {
    const int file = ::open("/dev/null", O_RDONLY);  // reuses the free number
    segment.~SharedSegment();
    return fcntl(file, F_GETFD) >= 0 ? 0 : 1;
  }));
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace nf::cxl
