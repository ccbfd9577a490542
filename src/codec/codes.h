// Integer codes on the wire. A pack is 32 codes of `width` bits, 4 * width bytes.
//
// The width is split into planes of 16, 8, 4, 2 and 1 bits, largest first. The largest plane
// contains the lowest bits of each code. Within a plane, byte j contains elements that are far
// apart, so that a vector of codes is packed by one shift and one or:
//
//   plane   bytes   contents of byte (or word) j
//   16      64      element j, little-endian
//   8       32      element j
//   4       16      element j in bits 0-3, j + 16 in bits 4-7
//   2       8       elements j, j + 8, j + 16, j + 24, from bit 0 up
//   1       4       element 8 j + i in bit i
#pragma once

#include <cstddef>
#include <cstdint>

namespace nf {

inline constexpr std::size_t kPack = 32;
inline constexpr unsigned kMaxWidth = 16;

constexpr std::size_t pack_bytes(unsigned width) { return 4 * width; }
constexpr std::size_t packs_of(std::size_t count) { return (count + kPack - 1) / kPack; }

// The scalar reference for one pack of codes below 2^width, 1 <= width <= kMaxWidth.
void pack_codes(const std::uint32_t* codes, unsigned width, std::byte* wire);
void unpack_codes(const std::byte* wire, unsigned width, std::uint32_t* codes);

}  // namespace nf
