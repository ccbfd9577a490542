// Shared by the tests of the registers.
#pragma once

#include <cstdint>
#include <cstdio>

#include "line.h"

namespace nf::rtl {

class Checks {
 public:
  void equal(const char* what, std::uint64_t got, std::uint64_t expected) {
    ++count_;
    if (got == expected) return;
    ++wrong_;
    std::printf("%s: %llx, expected %llx\n", what, static_cast<unsigned long long>(got),
                static_cast<unsigned long long>(expected));
  }
  void equal(const char* what, Fault got, Fault expected) {
    equal(what, static_cast<std::uint64_t>(got), static_cast<std::uint64_t>(expected));
  }

  int result() const {
    if (wrong_ == 0) std::printf("ok: %d checks of the registers\n", count_);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  int count_ = 0, wrong_ = 0;
};

constexpr std::uint64_t region(unsigned number, std::uint64_t offset) {
  return 0x100 + 0x80 * number + offset;
}

inline constexpr RegionConfig kValid{
    .mode = 2, .workers = 3, .base = 0x1000, .length = 4, .stride = 8, .store = 0};

}  // namespace nf::rtl
