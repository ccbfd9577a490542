#include "cxl/own_files.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace nf::cxl {
namespace {

constexpr int kNone = 0;  // what an entry without a file holds; others hold the file plus one

// An array, so that the child, which may have been forked at any moment, needs no lock to read it.
std::atomic<int> own_files[1024];
static_assert(std::atomic<int>::is_always_lock_free);

// Runs in the child, where only what is safe in a signal handler may be called. The parent's locks
// stay: it has the file open.
void close_all() {
  for (std::atomic<int>& entry : own_files) {
    if (const int held = entry.exchange(kNone); held != kNone) ::close(held - 1);
  }
}

bool replace(int from, int to) {
  for (std::atomic<int>& entry : own_files) {
    int expected = from;
    if (entry.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

}  // namespace

bool keep_from_children(int file) {
  static const bool is_watching = pthread_atfork(nullptr, nullptr, close_all) == 0;
  return is_watching && replace(kNone, file + 1);
}

// Forgotten first: a child forked in between must not close another file of this number.
void close_own(int file) {
  if (replace(file + 1, kNone)) ::close(file);
}

}  // namespace nf::cxl
