#include "nf/bench/rank_processes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>

namespace nf::cli {
namespace {

constexpr std::size_t kMessageBytes = 512;

// The result of a rank, followed by its samples.
struct alignas(double) RankResult {
  ErrorCode code = ErrorCode::kOk;
  char message[kMessageBytes] = {};
};

// Results in memory that the child processes share with this one.
class SharedResults {
 public:
  SharedResults(std::uint32_t ranks, std::size_t samples)
      : stride_(sizeof(RankResult) + samples * sizeof(double)),
        samples_(samples),
        size_(ranks * stride_) {
    void* const memory =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  ~SharedResults() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  SharedResults(const SharedResults&) = delete;
  SharedResults& operator=(const SharedResults&) = delete;

  bool is_valid() const { return memory_ != nullptr; }
  RankResult& result(std::uint32_t rank) {
    return *reinterpret_cast<RankResult*>(memory_ + rank * stride_);
  }
  std::span<double> samples(std::uint32_t rank) {
    return {reinterpret_cast<double*>(memory_ + rank * stride_ + sizeof(RankResult)), samples_};
  }

 private:
  const std::size_t stride_;
  const std::size_t samples_;
  const std::size_t size_;
  std::byte* memory_ = nullptr;
};

// Exceptions must not unwind into the parent's main() in the child.
Status guarded(const RankWork& work, std::uint32_t rank, std::span<double> samples) {
  try {
    return work(rank, samples);
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, fmt::format("rank {} is out of memory", rank)};
  } catch (const std::exception& error) {
    return {ErrorCode::kUnsupported, fmt::format("rank {}: {}", rank, error.what())};
  }
}

[[noreturn]] void run_rank(const RankWork& work, std::uint32_t rank, SharedResults& results) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // Ctrl-C does not reach a separate session
  const Status status = guarded(work, rank, results.samples(rank));
  RankResult& result = results.result(rank);
  result.code = status.code();
  const std::size_t size = std::min(status.message().size(), kMessageBytes - 1);
  std::memcpy(result.message, status.message().data(), size);
  _exit(0);
}

Status system_error(const char* what) {
  return {ErrorCode::kUnsupported, fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

Expected<std::vector<std::vector<double>>> run_rank_processes(std::uint32_t ranks,
                                                              std::size_t samples,
                                                              const RankWork& work) {
  SharedResults results(ranks, samples);
  if (!results.is_valid()) return system_error("cannot allocate shared memory");
  std::vector<pid_t> children;
  Status failure;
  for (std::uint32_t rank = 0; rank < ranks && failure.ok(); ++rank) {
    const pid_t child = fork();
    if (child == 0) run_rank(work, rank, results);
    if (child > 0) {
      children.push_back(child);
    } else {
      failure = system_error("cannot start a process");
    }
  }
  for (std::uint32_t rank = 0; rank < children.size(); ++rank) {
    if (children.size() < ranks) kill(children[rank], SIGKILL);  // it would wait for the others
    int wait_status = 0;
    waitpid(children[rank], &wait_status, 0);
    if (!failure.ok()) continue;
    if (WIFSIGNALED(wait_status)) {
      failure = {ErrorCode::kPeerLost, fmt::format("the process of rank {} was killed by signal {}",
                                                   rank, WTERMSIG(wait_status))};
    } else if (const RankResult& result = results.result(rank); result.code != ErrorCode::kOk) {
      failure = {result.code, result.message};
    }
  }
  if (!failure.ok()) return failure;
  std::vector<std::vector<double>> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::span<double> own = results.samples(rank);
    all.emplace_back(own.begin(), own.end());
  }
  return all;
}

}  // namespace nf::cli
