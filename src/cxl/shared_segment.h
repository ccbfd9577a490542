// A shared memory segment of several processes, their rendezvous, and a barrier that detects dead
// ranks.
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

inline constexpr std::size_t kMaxSharedRanks = 64;
inline constexpr std::size_t kMaxErrorBytes = 256;
inline constexpr std::chrono::milliseconds kPollInterval{20};  // of the checks of a waiting rank

// The start of the segment. Zero when the segment is created.
struct SegmentHeader {
  std::atomic<std::uint32_t> magic;  // set last
  std::uint32_t ranks;
  std::uint64_t bytes;
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> acknowledged;  // ranks that have read the error of the rendezvous
  std::atomic<std::uint32_t> is_open;       // all ranks have joined
  std::atomic<std::uint32_t> arrived;       // ranks at the barrier
  std::atomic<std::uint32_t> passed;        // barriers passed
  std::atomic<std::uint32_t> failed;        // 1: the error is being written; 2: it is complete
  std::uint32_t error_code;
  char error_message[kMaxErrorBytes];
  std::atomic<std::uint32_t> reached[kMaxSharedRanks];    // by rank: barriers reached
  std::atomic<std::uint64_t> call_hash[kMaxSharedRanks];  // by rank: the arguments of its call
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Size of the header, in whole pages.
constexpr std::size_t header_bytes() {
  constexpr std::size_t kPage = 4096;
  return (sizeof(SegmentHeader) + kPage - 1) / kPage * kPage;
}

Status system_error(ErrorCode code, const std::string& what);  // appends the text of errno

class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment() { close(); }
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Rank 0 creates the segment; the others open it by its name, which is removed once all ranks
  // have joined. Fails if options differ, a rank does not join, rank 0 dies, or another job with
  // this name is joining.
  Status join(const SegmentOptions& options);

  SegmentHeader& header() { return *header_; }
  // After the header, at a multiple of 4096.
  std::byte* data() { return data_; }

  // Waits for all ranks. Fails if a rank died, timed out or failed.
  Status barrier();
  // Makes the current or next barrier of every rank fail with this status. The first status wins
  // and is returned.
  Status fail(const Status& status);

 private:
  // The rendezvous: rank 0 calls create(), the others attach().
  Status create();
  Status take_name(int& other);
  Status lock_error() const;
  Status make(int other);
  Status wait_for_all();
  void wait_for_acknowledgements(std::chrono::steady_clock::time_point end);
  Status attach();
  Expected<bool> find();
  Status enter();
  Status wait_until_open(std::chrono::steady_clock::time_point end);
  Status rendezvous_timeout() const;

  bool open(int flags);  // sets errno on failure
  // Maps through `other`, a second descriptor of the file, and closes it. A mapping keeps its file
  // open, in forked children too, and with it the locks on that descriptor.
  Status map(int other);
  Status check_missing_ranks(std::uint32_t passed, bool is_late);
  bool is_alive(std::uint32_t rank) const;
  bool lock(std::uint32_t byte) const;  // sets errno on failure
  Status lock_own_byte() const;
  Status failure_status() const;
  void close();

  SegmentOptions options_;
  std::string path_;
  int file_ = -1;
  std::size_t mapped_ = 0;
  SegmentHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace nf::cxl
