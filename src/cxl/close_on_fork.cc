#include "cxl/close_on_fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace nf::cxl {
namespace {

constexpr int kNone = 0;  // an entry without a file; other entries hold the file plus one

// An array, so that the child, which may be forked at any moment, can read it without a lock.
std::atomic<int> owned_files[1024];
static_assert(std::atomic<int>::is_always_lock_free);

// Runs in the child and therefore calls only async-signal-safe functions. The parent keeps its
// locks, since it still has the file open.
void close_all() {
  for (std::atomic<int>& entry : owned_files) {
    if (const int held = entry.exchange(kNone); held != kNone) ::close(held - 1);
  }
}

bool replace(int from, int to) {
  for (std::atomic<int>& entry : owned_files) {
    int expected = from;
    if (entry.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

}  // namespace

bool close_on_fork(int file) {
  static const bool is_registered = pthread_atfork(nullptr, nullptr, close_all) == 0;
  return is_registered && replace(kNone, file + 1);
}

// Removes the entry first: a child forked in between must not close another file with this number.
void close_owned(int file) {
  if (replace(file + 1, kNone)) ::close(file);
}

}  // namespace nf::cxl
