// Linux: shm_open for the memory, futexes for waiting, and one locked byte of the file per rank.
// The kernel releases the lock when the process dies, so the other ranks can detect it. Forked
// children close the file.
#include "cxl/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "cxl/close_on_fork.h"
#include "cxl/futex.h"

namespace nf::cxl {
namespace {

using Clock = std::chrono::steady_clock;

struct flock byte_lock(std::uint32_t byte) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Status system_error(ErrorCode code, const std::string& what) {
  return {code, fmt::format("{}: {}", what, std::strerror(errno))};
}

Status SharedSegment::map(int other) {
  struct stat found = {};
  const bool is_found = fstat(other, &found) == 0;
  mapped_ = static_cast<std::size_t>(found.st_size);
  void* memory = MAP_FAILED;
  if (is_found) {
    memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
  }
  const Status failed = system_error(ErrorCode::kUnsupported, "cannot map shared memory");
  ::close(other);
  if (memory == MAP_FAILED) {
    mapped_ = 0;
    return failed;
  }
  header_ = static_cast<SegmentHeader*>(memory);
  data_ = static_cast<std::byte*>(memory) + header_bytes();
  return {};
}

bool SharedSegment::lock(std::uint32_t byte) const {
  struct flock lock = byte_lock(byte);
  return fcntl(file_, F_OFD_SETLK, &lock) == 0;
}

Status SharedSegment::lock_own_byte() const {
  if (lock(options_.rank)) return {};
  if (errno == EAGAIN || errno == EACCES) {
    return {ErrorCode::kDisagreement, fmt::format("shared reducer '{}': two processes use rank {}",
                                                  options_.name, options_.rank)};
  }
  return system_error(ErrorCode::kUnsupported, "cannot lock shared memory");
}

bool SharedSegment::is_alive(std::uint32_t rank) const {
  struct flock lock = byte_lock(rank);
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Status SharedSegment::barrier() {
  if (header_->failed.load() != 0) return failure_status();
  const std::uint32_t passed = header_->passed.load();
  header_->reached[options_.rank].store(passed + 1);
  if (header_->arrived.fetch_add(1) + 1 == options_.ranks) {
    header_->arrived.store(0);
    header_->passed.store(passed + 1);
    futex_wake_all(header_->passed);
    return {};
  }
  const auto end = Clock::now() + options_.timeout;
  while (header_->passed.load() == passed) {
    if (header_->failed.load() != 0) return failure_status();
    futex_wait(header_->passed, passed, kPollInterval);
    if (header_->passed.load() != passed) break;
    const Status missing = check_missing_ranks(passed, Clock::now() >= end);
    if (!missing.ok()) return fail(missing);
  }
  return {};
}

Status SharedSegment::check_missing_ranks(std::uint32_t passed, bool is_late) {
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (header_->reached[rank].load() == passed + 1) continue;
    const bool is_gone = !is_alive(rank);
    if (!is_gone && !is_late) continue;
    // The rank may have reached the barrier and exited in the meantime; it is not missing then.
    if (header_->passed.load() != passed || header_->reached[rank].load() == passed + 1) continue;
    if (is_gone) {
      return {ErrorCode::kPeerLost,
              fmt::format("shared reducer '{}': rank {} is gone", options_.name, rank)};
    }
    return {ErrorCode::kDeadlineExceeded,
            fmt::format("shared reducer '{}': rank {} did not reach the barrier within {} ms",
                        options_.name, rank, options_.timeout.count())};
  }
  return {};
}

Status SharedSegment::fail(const Status& status) {
  std::uint32_t none = 0;
  if (header_->failed.compare_exchange_strong(none, 1)) {
    header_->error_code = static_cast<std::uint32_t>(status.code());
    const std::size_t size = std::min(status.message().size(), kMaxErrorBytes - 1);
    std::memcpy(header_->error_message, status.message().data(), size);
    header_->error_message[size] = 0;
    header_->failed.store(2);
    futex_wake_all(header_->passed);
  }
  return failure_status();
}

Status SharedSegment::failure_status() const {
  // The failing rank writes the error at once, unless it dies in the middle.
  for (int i = 0; i < 100 && header_->failed.load() != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (header_->failed.load() != 2) {
    return {ErrorCode::kPeerLost, fmt::format("shared reducer '{}' failed", options_.name)};
  }
  return {static_cast<ErrorCode>(header_->error_code), std::string(header_->error_message)};
}

void SharedSegment::close() {
  if (header_ != nullptr) munmap(header_, mapped_);
  if (file_ >= 0) close_owned(file_);
  header_ = nullptr;
  data_ = nullptr;
  file_ = -1;
  mapped_ = 0;
}

}  // namespace nf::cxl
