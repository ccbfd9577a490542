// Memory that several processes share, the way in which they meet in it, and a barrier that does
// not wait for the dead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "neuron_fabric/status.h"

namespace nf::cxl {

struct SegmentOptions {
  std::string name;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::size_t bytes = 0;  // the same on all ranks
  std::chrono::milliseconds timeout{30'000};
};

inline constexpr std::size_t kMostSharedRanks = 64;
inline constexpr std::size_t kNoteBytes = 256;
inline constexpr std::chrono::milliseconds kGlance{20};  // how often whoever waits looks around

// What lies at the beginning of the memory. Zero when it is made.
struct SegmentHeader {
  std::atomic<std::uint32_t> magic;  // set when all else is
  std::uint32_t ranks;
  std::uint64_t bytes;
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> told;     // that the meeting has failed
  std::atomic<std::uint32_t> is_open;  // everybody has come
  std::atomic<std::uint32_t> arrived;  // at the barrier
  std::atomic<std::uint32_t> phase;    // barriers passed
  std::atomic<std::uint32_t> failed;   // 1: somebody writes the note; 2: it is written
  std::uint32_t code;                  // of the note
  char note[kNoteBytes];
  std::atomic<std::uint32_t> at[kMostSharedRanks];     // by rank: barriers reached
  std::atomic<std::uint64_t> asked[kMostSharedRanks];  // by rank: what for, as a hash
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// What the header takes: whole pages.
constexpr std::size_t header_bytes() {
  constexpr std::size_t kPage = 4096;
  return (sizeof(SegmentHeader) + kPage - 1) / kPage * kPage;
}

Status system_error(ErrorCode code, const std::string& what);  // and what errno says

class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment() { close(); }
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Rank 0 makes the memory, the others find it by its name, which is gone when all have come.
  // Fails where ranks differ, one does not come, rank 0 dies, or another job of this name is at it.
  Status join(const SegmentOptions& options);

  SegmentHeader& header() { return *header_; }
  // Behind the header, at a multiple of 4096.
  std::byte* data() { return data_; }

  // Waits until all ranks are here. Fails where one is gone, late, or has failed.
  Status barrier();
  // Lets every rank's next, or present, barrier fail with this status; the first one counts.
  Status fail(const Status& status);

 private:
  // The meeting: of rank 0, and of the others.
  Status create();
  Status take_name(int& other);
  Status name_not_taken() const;
  Status make(int other);
  Status wait_for_all();
  void wait_until_told(std::chrono::steady_clock::time_point end);
  Status attach();
  Expected<bool> find();
  Status enter();
  Status wait_until_open(std::chrono::steady_clock::time_point end);
  Status not_met() const;

  bool open(int flags);  // false: errno says why not
  // Takes, and closes, another descriptor than file_: a mapping keeps the file that it was made of
  // open, in forked children too, and with it the locks.
  Status map(int other);
  Status who_is_missing(std::uint32_t phase, bool is_late);
  bool is_alive(std::uint32_t rank) const;
  bool lock(std::uint32_t byte) const;  // false: errno says why not
  Status lock_own_byte() const;
  Status noted() const;
  void close();

  SegmentOptions options_;
  std::string path_;
  int file_ = -1;
  std::size_t mapped_ = 0;
  SegmentHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace nf::cxl
