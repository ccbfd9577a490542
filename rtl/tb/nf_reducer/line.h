// The types exchanged between a testbench and the reducer, with the terms of docs/cxl.md.
#pragma once

#include <array>
#include <cstdint>

namespace nf::rtl {

using Line = std::array<std::uint8_t, 64>;

enum class Mode : std::uint8_t { kIdentity, kFp32, kGBinary, kGTernary };
inline constexpr const char* kModeNames[] = {"identity", "fp32", "g_binary", "g_ternary"};

enum class Fault : std::uint8_t {
  kOk,
  kWrongMode,
  kOverlap,
  kTooManyWorkers,
  kNotComplete,
  kDuplicate,
  kOutOfRange,
  kBadDigits,
  kMisaligned,
  kLocked,
  kExhausted,
  kOverflow,
};

struct Limits {
  std::uint32_t planes = 0;
  std::uint32_t workers = 0;
  std::uint32_t regions = 0;
  std::uint32_t records = 0;
};

struct RegionConfig {
  std::uint64_t mode = 0;
  std::uint64_t workers = 0;
  std::uint64_t base = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
  std::uint64_t store = 0;
};

struct Request {
  bool is_write = false;
  std::uint64_t cycle = 0;  // offered from this cycle on
  std::uint64_t address = 0;
  Line data = {};
};

struct Answer {
  std::uint64_t taken = 0;
  std::uint64_t answered = 0;
  Fault fault = Fault::kOk;
  bool complete = false;
  Line data = {};

  friend bool operator==(const Answer&, const Answer&) = default;
};

}  // namespace nf::rtl
