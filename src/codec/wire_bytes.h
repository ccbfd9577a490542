// Reads and writes little-endian numbers at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nf {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline std::uint16_t get_u16(const std::byte* from) {
  std::uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void put_u16(std::uint16_t value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

inline float get_float(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void put_float(float value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

}  // namespace nf
