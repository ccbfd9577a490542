// The modes of a region: how it processes the lines that are written to it (docs/cxl.md#modes).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nf::cxl {

enum class Mode : std::uint8_t { kIdentity, kFp32, kGBinary, kGTernary };
inline constexpr Mode kModes[] = {Mode::kIdentity, Mode::kFp32, Mode::kGBinary, Mode::kGTernary};

// "identity", "fp32", "g_binary", "g_ternary".
std::string_view to_string(Mode mode);
std::optional<Mode> find_mode(std::string_view name);

constexpr bool counts_digits(Mode mode) {
  return mode == Mode::kGBinary || mode == Mode::kGTernary;
}

// The maximum digit of an element; 0 if the mode has no digits.
constexpr std::uint32_t max_digit(Mode mode) {
  return mode == Mode::kGBinary ? 1 : mode == Mode::kGTernary ? 2 : 0;
}

// Elements per gradient line; 0 for identity, which has no elements.
constexpr std::uint32_t elements_of(Mode mode) {
  switch (mode) {
    case Mode::kIdentity: return 0;
    case Mode::kFp32: return 16;
    case Mode::kGBinary: return 512;
    case Mode::kGTernary: return 320;
  }
  return 0;
}

// Planes needed for the sums of the digits of so many workers; 0 if the mode has no digits.
constexpr unsigned planes_of(Mode mode, std::uint64_t workers) {
  unsigned planes = 0;
  for (std::uint64_t max_sum = max_digit(mode) * workers; max_sum != 0; max_sum /= 2) ++planes;
  return planes;
}

constexpr unsigned result_windows_of(Mode mode, std::uint64_t workers) {
  return mode == Mode::kFp32 ? 1 : planes_of(mode, workers);
}

}  // namespace nf::cxl
