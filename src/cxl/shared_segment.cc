// Linux: shm_open for the memory, futexes for waiting, and a lock on one byte of the file a rank,
// which the kernel gives up when the process dies: that is how the others know.
#include "cxl/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

namespace nf::cxl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kMagic = 0x4e465331;  // "NFS1"
constexpr std::size_t kPage = 4096;
constexpr milliseconds kFarewell{1000};  // how long who comes late may still read why all failed
constexpr milliseconds kGlance{20};      // how often whoever waits looks around

constexpr std::size_t header_bytes() { return (sizeof(SegmentHeader) + kPage - 1) / kPage * kPage; }

Status system_error(ErrorCode code, const std::string& what) {
  return {code, fmt::format("{}: {}", what, std::strerror(errno))};
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, milliseconds most) {
  const timespec time{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

struct flock byte_lock(std::uint32_t rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Status SharedSegment::join(const SegmentOptions& options) {
  options_ = options;
  return options.rank == 0 ? create() : attach();
}

Status SharedSegment::create() {
  const std::string path = "/" + options_.name;
  shm_unlink(path.c_str());  // what a job of this name may have left
  file_ = shm_open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file_ < 0) return system_error(ErrorCode::kUnsupported, "cannot make shared memory " + path);
  // Allocates: where there is too little, that is an error here and not a signal later.
  const auto size = static_cast<off_t>(header_bytes() + options_.bytes);
  if (const int error = posix_fallocate(file_, 0, size); error != 0) {
    errno = error;
    Status status = system_error(ErrorCode::kUnsupported,
                                 fmt::format("no room for {} bytes of shared memory", size));
    shm_unlink(path.c_str());
    return status;
  }
  NF_RETURN_IF_ERROR(map(file_));
  NF_RETURN_IF_ERROR(lock_own_byte());
  header_->ranks = options_.ranks;
  header_->bytes = options_.bytes;
  header_->magic.store(kMagic);
  const auto end = Clock::now() + options_.timeout;
  while (header_->joined.load() + 1 < options_.ranks) {
    const std::uint32_t joined = header_->joined.load();
    if (joined + 1 >= options_.ranks) break;
    if (header_->failed.load() != 0) {
      std::this_thread::sleep_for(kFarewell);
      shm_unlink(path.c_str());
      return noted();
    }
    if (Clock::now() >= end) {
      shm_unlink(path.c_str());
      return fail(
          {ErrorCode::kDeadlineExceeded,
           fmt::format("shared reducer '{}': {} of {} ranks came within {} ms", options_.name,
                       joined + 1, options_.ranks, options_.timeout.count())});
    }
    futex_wait(header_->joined, joined, kGlance);
  }
  shm_unlink(path.c_str());
  header_->is_open.store(1);
  futex_wake_all(header_->is_open);
  return {};
}

// A name may still lead to the memory of a job that died: nobody opens that, and the name will lead
// elsewhere soon.
Status SharedSegment::attach() {
  const std::string path = "/" + options_.name;
  const auto end = Clock::now() + options_.timeout;
  while (Clock::now() < end) {
    file_ = shm_open(path.c_str(), O_RDWR, 0600);
    struct stat own = {};
    const bool is_whole = file_ >= 0 && fstat(file_, &own) == 0 &&
                          static_cast<std::size_t>(own.st_size) >= header_bytes();
    if (!is_whole) {
      close();
      std::this_thread::sleep_for(kGlance);
      continue;
    }
    NF_RETURN_IF_ERROR(map(file_));
    if (header_->magic.load() == kMagic) {
      if (header_->ranks != options_.ranks || header_->bytes != options_.bytes) {
        return fail({ErrorCode::kDisagreement,
                     fmt::format("shared reducer '{}': rank 0 has {} ranks and {} bytes, rank {} "
                                 "has {} and {}",
                                 options_.name, header_->ranks, header_->bytes, options_.rank,
                                 options_.ranks, options_.bytes)});
      }
      if (const Status locked = lock_own_byte(); !locked.ok()) return fail(locked);
      header_->joined.fetch_add(1);
      futex_wake_all(header_->joined);
    }
    bool is_current = header_->magic.load() == kMagic;
    while (is_current && header_->is_open.load() == 0 && Clock::now() < end) {
      if (header_->failed.load() != 0) return noted();
      futex_wait(header_->is_open, 0, kGlance);
      struct stat named = {};
      const int other = shm_open(path.c_str(), O_RDWR, 0600);
      const bool is_named = other >= 0 && fstat(other, &named) == 0;
      if (other >= 0) ::close(other);
      is_current = header_->is_open.load() != 0 || !is_named || named.st_ino == own.st_ino;
    }
    if (is_current && header_->is_open.load() != 0) return {};
    close();
  }
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("shared reducer '{}': rank {} did not meet rank 0 within {} ms",
                      options_.name, options_.rank, options_.timeout.count())};
}

Status SharedSegment::map(int file) {
  struct stat found = {};
  if (fstat(file, &found) != 0) return system_error(ErrorCode::kUnsupported, "shared memory");
  mapped_ = static_cast<std::size_t>(found.st_size);
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    mapped_ = 0;
    return system_error(ErrorCode::kUnsupported, "cannot map shared memory");
  }
  header_ = static_cast<SegmentHeader*>(memory);
  data_ = static_cast<std::byte*>(memory) + header_bytes();
  return {};
}

Status SharedSegment::lock_own_byte() const {
  struct flock lock = byte_lock(options_.rank);
  if (fcntl(file_, F_OFD_SETLK, &lock) == 0) return {};
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
    if (!is_alive(rank)) {
      // It may have arrived, and left, since: only whoever never came is lost.
      if (header_->phase.load() != phase || header_->at[rank].load() == phase + 1) continue;
      return {ErrorCode::kPeerLost,
              fmt::format("shared reducer '{}': rank {} is gone", options_.name, rank)};
    }
    if (is_late) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("shared reducer '{}': rank {} did not come within {} ms", options_.name,
                          rank, options_.timeout.count())};
    }
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
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (header_->failed.load() != 2) {
    return {ErrorCode::kPeerLost, fmt::format("shared reducer '{}' failed", options_.name)};
  }
  return {static_cast<ErrorCode>(header_->code), std::string(header_->note)};
}

void SharedSegment::close() {
  if (header_ != nullptr) munmap(header_, mapped_);
  if (file_ >= 0) ::close(file_);
  header_ = nullptr;
  data_ = nullptr;
  file_ = -1;
  mapped_ = 0;
}

}  // namespace nf::cxl
