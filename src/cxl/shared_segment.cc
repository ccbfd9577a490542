// Linux: shm_open for the memory, futexes for waiting, and a lock on one byte of the file a rank,
// which the kernel gives up when the process dies: that is how the others know. Its children close
// the file as they are forked.
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

#include "cxl/futex.h"
#include "cxl/own_files.h"

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
    return {ErrorCode::kDisagreement, fmt::format("shared reducer '{}': two ranks say they are {}",
                                                  options_.name, options_.rank)};
  }
  return system_error(ErrorCode::kUnsupported, "cannot lock shared memory");
}

bool SharedSegment::is_alive(std::uint32_t rank) const {
  struct flock lock = byte_lock(rank);
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Status SharedSegment::barrier() {
  if (header_->failed.load() != 0) return noted();
  const std::uint32_t phase = header_->phase.load();
  header_->at[options_.rank].store(phase + 1);
  if (header_->arrived.fetch_add(1) + 1 == options_.ranks) {
    header_->arrived.store(0);
    header_->phase.store(phase + 1);
    futex_wake_all(header_->phase);
    return {};
  }
  const auto end = Clock::now() + options_.timeout;
  while (header_->phase.load() == phase) {
    if (header_->failed.load() != 0) return noted();
    futex_wait(header_->phase, phase, kGlance);
    if (header_->phase.load() != phase) break;
    const Status missing = who_is_missing(phase, Clock::now() >= end);
    if (!missing.ok()) return fail(missing);
  }
  return {};
}

Status SharedSegment::who_is_missing(std::uint32_t phase, bool is_late) {
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (header_->at[rank].load() == phase + 1) continue;
    const bool is_gone = !is_alive(rank);
    if (!is_gone && !is_late) continue;
    // It may have arrived, and left, since: only whoever never came is missing.
    if (header_->phase.load() != phase || header_->at[rank].load() == phase + 1) continue;
    if (is_gone) {
      return {ErrorCode::kPeerLost,
              fmt::format("shared reducer '{}': rank {} is gone", options_.name, rank)};
    }
    return {ErrorCode::kDeadlineExceeded,
            fmt::format("shared reducer '{}': rank {} did not come within {} ms", options_.name,
                        rank, options_.timeout.count())};
  }
  return {};
}

Status SharedSegment::fail(const Status& status) {
  std::uint32_t nobody = 0;
  if (header_->failed.compare_exchange_strong(nobody, 1)) {
    header_->code = static_cast<std::uint32_t>(status.code());
    const std::size_t size = std::min(status.message().size(), kNoteBytes - 1);
    std::memcpy(header_->note, status.message().data(), size);
    header_->note[size] = 0;
    header_->failed.store(2);
    futex_wake_all(header_->phase);
  }
  return noted();
}

Status SharedSegment::noted() const {
  // Whoever writes the note does so at once, unless it dies just then.
  for (int i = 0; i < 100 && header_->failed.load() != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (header_->failed.load() != 2) {
    return {ErrorCode::kPeerLost, fmt::format("shared reducer '{}' failed", options_.name)};
  }
  return {static_cast<ErrorCode>(header_->code), std::string(header_->note)};
}

void SharedSegment::close() {
  if (header_ != nullptr) munmap(header_, mapped_);
  if (file_ >= 0) close_own(file_);
  header_ = nullptr;
  data_ = nullptr;
  file_ = -1;
  mapped_ = 0;
}

}  // namespace nf::cxl
