// Waits for a word of shared memory to change. Linux only.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace nf::cxl {

// Returns when another process wakes the word, after `timeout`, or at once if the word is no longer
// `value`. May also return spuriously.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                       std::chrono::milliseconds timeout) {
  const timespec time{.tv_sec = timeout.count() / 1000,
                      .tv_nsec = timeout.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace nf::cxl
