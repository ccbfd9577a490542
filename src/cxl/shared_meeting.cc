// How ranks meet: rank 0 makes the memory under the job's name, the others find it there.
//
// A name may still lead to the memory of a job that died. Locks on bytes of the file tell: rank 0
// holds the one of its own byte as long as it lives, so memory without it is as good as absent.
// Whoever takes the name holds another, and nobody else takes the name away.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "cxl/futex.h"
#include "cxl/own_files.h"
#include "cxl/shared_segment.h"

namespace nf::cxl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x4e465332;           // "NFS2"
constexpr std::uint32_t kNameByte = kMostSharedRanks;  // behind those of the ranks

// Another descriptor of this file, or -1 where the path leads elsewhere.
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

// Leaves an empty file of this name, and nobody else's, with another descriptor of it.
Status SharedSegment::take_name(int& other) {
  const auto end = Clock::now() + options_.timeout;
  do {
    if (!open(O_CREAT | O_RDWR)) break;
    if (!lock(kNameByte)) return name_not_taken();
    struct stat own = {};
    if (fstat(file_, &own) != 0) return system_error(ErrorCode::kUnsupported, "shared memory");
    other = open_again(path_, own);
    if (other >= 0 && own.st_size == 0) return {};
    if (other >= 0) {
      shm_unlink(path_.c_str());  // what a job that died has left
      ::close(other);
    }
    close();
  } while (Clock::now() < end);
  return system_error(ErrorCode::kUnsupported, "cannot make shared memory " + path_);
}

Status SharedSegment::name_not_taken() const {
  if (errno == EAGAIN || errno == EACCES) {
    return {ErrorCode::kDisagreement,
            fmt::format("shared reducer '{}': the ranks of another job of this name are meeting",
                        options_.name)};
  }
  Status status = system_error(ErrorCode::kUnsupported, "cannot lock shared memory");
  shm_unlink(path_.c_str());  // nobody can hold it
  return status;
}

bool SharedSegment::open(int flags) {
  file_ = shm_open(path_.c_str(), flags, 0600);
  if (file_ < 0 || keep_from_children(file_)) return file_ >= 0;
  ::close(file_);
  file_ = -1;
  errno = EMFILE;
  return false;
}

Status SharedSegment::make(int other) {
  // Allocates: where there is too little, that is an error here and not a signal later.
  const auto size = static_cast<off_t>(header_bytes() + options_.bytes);
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file_, 0, size);
  if (error != 0) {
    ::close(other);
    errno = error;
    return system_error(ErrorCode::kUnsupported,
                        fmt::format("no room for {} bytes of shared memory", size));
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
      wait_until_told(end);
      return noted();
    }
    const std::uint32_t joined = header_->joined.load();
    if (joined + 1 >= options_.ranks) return {};
    if (Clock::now() >= end) {
      return fail(
          {ErrorCode::kDeadlineExceeded,
           fmt::format("shared reducer '{}': {} of {} ranks came within {} ms", options_.name,
                       joined + 1, options_.ranks, options_.timeout.count())});
    }
    futex_wait(header_->joined, joined, kGlance);
  }
}

// Whoever comes late finds the name, and there why all failed.
void SharedSegment::wait_until_told(Clock::time_point end) {
  while (Clock::now() < end) {
    const std::uint32_t told = header_->told.load();
    if (told + 1 >= options_.ranks) return;
    futex_wait(header_->told, told, kGlance);
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
        header_->told.fetch_add(1);
        futex_wake_all(header_->told);
      }
      return status;
    }
    close();
    std::this_thread::sleep_for(kGlance);
  }
  return not_met();
}

// Whether the name leads to memory that a living rank 0 has made.
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
    if (header_->failed.load() != 0) return noted();
    if (Clock::now() >= end) return not_met();
    if (!is_alive(0)) {
      // It may have opened, or failed, and left since.
      if (header_->is_open.load() != 0 || header_->failed.load() != 0) continue;
      return {ErrorCode::kPeerLost,
              fmt::format("shared reducer '{}': rank 0 is gone", options_.name)};
    }
    futex_wait(header_->is_open, 0, kGlance);
  }
  return {};
}

Status SharedSegment::not_met() const {
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("shared reducer '{}': rank {} did not meet rank 0 within {} ms",
                      options_.name, options_.rank, options_.timeout.count())};
}

}  // namespace nf::cxl
