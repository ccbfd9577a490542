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

// What lies at the beginning of the memory. Zero when it is made.
struct SegmentHeader {
  std::atomic<std::uint32_t> magic;  // set when all else is
  std::uint32_t ranks;
  std::uint64_t bytes;
  std::atomic<std::uint32_t> joined;
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

class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment() { close(); }
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Rank 0 makes the memory, the others find it by its name, which is gone when all have come.
  Status join(const SegmentOptions& options);

  SegmentHeader& header() { return *header_; }
  // Behind the header, at a multiple of 4096.
  std::byte* data() { return data_; }

  // Waits until all ranks are here. Fails where one is gone, late, or has failed.
  Status barrier();
  // Lets every rank's next, or present, barrier fail with this status; the first one counts.
  Status fail(const Status& status);

 private:
  Status create();
  Status attach();
  Status map(int file);
  Status who_is_missing(std::uint32_t phase, bool is_late);
  bool is_alive(std::uint32_t rank) const;
  Status lock_own_byte() const;
  Status noted() const;
  void close();

  SegmentOptions options_;
  int file_ = -1;
  std::size_t mapped_ = 0;
  SegmentHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace nf::cxl
