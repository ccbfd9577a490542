// The rendezvous: rank 0 creates the segment under the job's name, the others open it.
//
// A name may still refer to the segment of a dead job. Locks on bytes of the file distinguish the
// cases. Rank 0 holds the lock of its byte while it lives, so a segment without that lock is
// treated as absent. The rank 0 that owns the name holds another lock, and only the holder may
// remove it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "cxl/close_on_fork.h"
#include "cxl/futex.h"
#include "cxl/shared_segment.h"

namespace nf::cxl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x4e465332;          // "NFS2"
constexpr std::uint32_t kNameByte = kMaxSharedRanks;  // after the bytes of the ranks

// Opens another descriptor of this file; returns -1 if the path refers to another file.
int open_again(const std::string& path, const struct stat& file) {
  const int other = shm_open(path.c_str(), O_RDWR, 0600);
  struct stat named = {};
  if (other < 0 || (fstat(other, &named) == 0 && named.st_ino == file.st_ino)) return other;
  ::close(other);
  return -1;
}

}  // namespace

Status SharedSegment::join(const SegmentOptions& options) {
  options_ = options;
  path_ = "/" + options.name;
  return options.rank == 0 ? create() : attach();
}

Status SharedSegment::create() {
  int other = -1;
  NF_RETURN_IF_ERROR(take_name(other));
  Status status = make(other);
  if (status.ok()) status = wait_for_all();
  shm_unlink(path_.c_str());
  if (!status.ok()) return status;
  header_->is_open.store(1);
  futex_wake_all(header_->is_open);
  return {};
}

// Creates an empty file with this name, locks the name, and opens another descriptor of the file.
Status SharedSegment::take_name(int& other) {
  const auto end = Clock::now() + options_.timeout;
  do {
    if (!open(O_CREAT | O_RDWR)) break;
    if (!lock(kNameByte)) return lock_error();
    struct stat own = {};
    if (fstat(file_, &own) != 0) return system_error(ErrorCode::kUnsupported, "shared memory");
    other = open_again(path_, own);
    if (other >= 0 && own.st_size == 0) return {};
    if (other >= 0) {
      shm_unlink(path_.c_str());  // left behind by a dead job
      ::close(other);
    }
    close();
  } while (Clock::now() < end);
  return system_error(ErrorCode::kUnsupported, "cannot create shared memory " + path_);
}

Status SharedSegment::lock_error() const {
  if (errno == EAGAIN || errno == EACCES) {
    return {ErrorCode::kDisagreement,
            fmt::format("shared reducer '{}': another job with this name is joining; use a "
                        "different name",
                        options_.name)};
  }
  Status status = system_error(ErrorCode::kUnsupported, "cannot lock shared memory");
  shm_unlink(path_.c_str());  // no process can lock it
  return status;
}

bool SharedSegment::open(int flags) {
  file_ = shm_open(path_.c_str(), flags, 0600);
  if (file_ < 0 || close_on_fork(file_)) return file_ >= 0;
  ::close(file_);
  file_ = -1;
  errno = EMFILE;
  return false;
}

Status SharedSegment::make(int other) {
  // Allocates the memory now: if there is too little, that is an error here, not a SIGBUS later.
  const auto size = static_cast<off_t>(header_bytes() + options_.bytes);
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file_, 0, size);
  if (error != 0) {
    ::close(other);
    errno = error;
    return system_error(ErrorCode::kUnsupported,
                        fmt::format("cannot allocate {} bytes of shared memory (/dev/shm)", size));
  }
  NF_RETURN_IF_ERROR(map(other));
  NF_RETURN_IF_ERROR(lock_own_byte());
  header_->ranks = options_.ranks;
  header_->bytes = options_.bytes;
  header_->magic.store(kMagic);
  return {};
}

Status SharedSegment::wait_for_all() {
  const auto end = Clock::now() + options_.timeout;
  while (true) {
    if (header_->failed.load() != 0) {
      wait_for_acknowledgements(end);
      return failure_status();
    }
    const std::uint32_t joined = header_->joined.load();
    if (joined + 1 >= options_.ranks) return {};
    if (Clock::now() >= end) {
      return fail(
          {ErrorCode::kDeadlineExceeded,
           fmt::format("shared reducer '{}': {} of {} ranks joined within {} ms", options_.name,
                       joined + 1, options_.ranks, options_.timeout.count())});
    }
    futex_wait(header_->joined, joined, kPollInterval);
  }
}

// Keeps the name until all ranks have read the error, so that late ranks get it too.
void SharedSegment::wait_for_acknowledgements(Clock::time_point end) {
  while (Clock::now() < end) {
    const std::uint32_t acknowledged = header_->acknowledged.load();
    if (acknowledged + 1 >= options_.ranks) return;
    futex_wait(header_->acknowledged, acknowledged, kPollInterval);
  }
}

Status SharedSegment::attach() {
  const auto end = Clock::now() + options_.timeout;
  while (Clock::now() < end) {
    const Expected<bool> found = find();
    if (!found) return found.status();
    if (*found) {
      Status status = enter();
      if (status.ok()) status = wait_until_open(end);
      if (header_->failed.load() != 0) {
        header_->acknowledged.fetch_add(1);
        futex_wake_all(header_->acknowledged);
      }
      return status;
    }
    close();
    std::this_thread::sleep_for(kPollInterval);
  }
  return rendezvous_timeout();
}

// Whether the name refers to the segment of a living rank 0.
Expected<bool> SharedSegment::find() {
  struct stat found = {};
  if (!open(O_RDWR) || fstat(file_, &found) != 0) return false;
  if (static_cast<std::size_t>(found.st_size) < header_bytes()) return false;
  const int other = open_again(path_, found);
  if (other < 0) return false;
  if (const Status mapped = map(other); !mapped.ok()) return mapped;
  return header_->magic.load() == kMagic && is_alive(0);
}

Status SharedSegment::enter() {
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
  return {};
}

Status SharedSegment::wait_until_open(Clock::time_point end) {
  while (header_->is_open.load() == 0) {
    if (header_->failed.load() != 0) return failure_status();
    if (Clock::now() >= end) return rendezvous_timeout();
    if (!is_alive(0)) {
      // Rank 0 may have opened the segment or failed, and exited in the meantime.
      if (header_->is_open.load() != 0 || header_->failed.load() != 0) continue;
      return {ErrorCode::kPeerLost,
              fmt::format("shared reducer '{}': rank 0 is gone", options_.name)};
    }
    futex_wait(header_->is_open, 0, kPollInterval);
  }
  return {};
}

Status SharedSegment::rendezvous_timeout() const {
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("shared reducer '{}': rank {} did not find rank 0 within {} ms",
                      options_.name, options_.rank, options_.timeout.count())};
}

}  // namespace nf::cxl
