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

// What a rank leaves behind; its samples follow.
struct alignas(double) Note {
  ErrorCode code = ErrorCode::kOk;
  char message[kMessageBytes] = {};
};

// Memory that children share with this process.
class Notes {
 public:
  Notes(std::uint32_t ranks, std::size_t samples)
      : stride_(sizeof(Note) + samples * sizeof(double)),
        samples_(samples),
        size_(ranks * stride_) {
    void* const memory =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  ~Notes() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;

  bool is_there() const { return memory_ != nullptr; }
  Note& note(std::uint32_t rank) { return *reinterpret_cast<Note*>(memory_ + rank * stride_); }
  std::span<double> samples(std::uint32_t rank) {
    return {reinterpret_cast<double*>(memory_ + rank * stride_ + sizeof(Note)), samples_};
  }

 private:
  const std::size_t stride_;
  const std::size_t samples_;
  const std::size_t size_;
  std::byte* memory_ = nullptr;
};

// What is thrown must not leave the child by way of the parent's main().
Status guarded(const RankWork& work, std::uint32_t rank, std::span<double> samples) {
  try {
    return work(rank, samples);
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, fmt::format("rank {} is out of memory", rank)};
  } catch (const std::exception& error) {
    return {ErrorCode::kUnsupported, fmt::format("rank {}: {}", rank, error.what())};
  }
}

[[noreturn]] void be_rank(const RankWork& work, std::uint32_t rank, Notes& notes) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a session of its own hears no Ctrl-C
  const Status status = guarded(work, rank, notes.samples(rank));
  Note& note = notes.note(rank);
  note.code = status.code();
  const std::size_t size = std::min(status.message().size(), kMessageBytes - 1);
  std::memcpy(note.message, status.message().data(), size);
  _exit(0);
}

Status system_error(const char* what) {
  return {ErrorCode::kUnsupported, fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

Expected<std::vector<std::vector<double>>> run_rank_processes(std::uint32_t ranks,
                                                              std::size_t samples,
                                                              const RankWork& work) {
  Notes notes(ranks, samples);
  if (!notes.is_there()) return system_error("no memory to share with other processes");
  std::vector<pid_t> children;
  Status failure;
  for (std::uint32_t rank = 0; rank < ranks && failure.ok(); ++rank) {
    const pid_t child = fork();
    if (child == 0) be_rank(work, rank, notes);
    if (child > 0) {
      children.push_back(child);
    } else {
      failure = system_error("cannot start a process");
    }
  }
  for (std::uint32_t rank = 0; rank < children.size(); ++rank) {
    if (children.size() < ranks) kill(children[rank], SIGKILL);  // they would wait for the others
    int ended = 0;
    waitpid(children[rank], &ended, 0);
    if (!failure.ok()) continue;
    if (WIFSIGNALED(ended)) {
      failure = {ErrorCode::kPeerLost, fmt::format("the process of rank {} was killed by signal {}",
                                                   rank, WTERMSIG(ended))};
    } else if (const Note& note = notes.note(rank); note.code != ErrorCode::kOk) {
      failure = {note.code, note.message};
    }
  }
  if (!failure.ok()) return failure;
  std::vector<std::vector<double>> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::span<double> own = notes.samples(rank);
    all.emplace_back(own.begin(), own.end());
  }
  return all;
}

}  // namespace nf::cli
