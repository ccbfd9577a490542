#include "codec/codes.h"

#include <cstring>

namespace nf {
namespace {

// The bits per code of a plane and its size in a pack.
struct Plane {
  unsigned bits;
  std::size_t bytes;
};

constexpr Plane kPlanes[] = {{16, 64}, {8, 32}, {4, 16}, {2, 8}, {1, 4}};

// The position of an element in a plane of less than 16 bits.
struct Place {
  std::size_t byte;
  unsigned bit;
};

Place place(Plane plane, std::size_t element) {
  if (plane.bits == 1) return {element / 8, static_cast<unsigned>(element % 8)};
  return {element % plane.bytes, static_cast<unsigned>(element / plane.bytes) * plane.bits};
}

}  // namespace

void pack_codes(const std::uint32_t* codes, unsigned width, std::byte* wire) {
  std::memset(wire, 0, pack_bytes(width));
  unsigned shift = 0;
  for (const Plane plane : kPlanes) {
    if ((width & plane.bits) == 0) continue;
    for (std::size_t e = 0; e < kPack; ++e) {
      const std::uint32_t part = (codes[e] >> shift) & ((1u << plane.bits) - 1);
      if (plane.bits == 16) {
        wire[2 * e] = static_cast<std::byte>(part & 0xff);
        wire[2 * e + 1] = static_cast<std::byte>(part >> 8);
      } else {
        const Place at = place(plane, e);
        wire[at.byte] |= static_cast<std::byte>(part << at.bit);
      }
    }
    wire += plane.bytes;
    shift += plane.bits;
  }
}

void unpack_codes(const std::byte* wire, unsigned width, std::uint32_t* codes) {
  std::memset(codes, 0, kPack * sizeof *codes);
  unsigned shift = 0;
  for (const Plane plane : kPlanes) {
    if ((width & plane.bits) == 0) continue;
    for (std::size_t e = 0; e < kPack; ++e) {
      std::uint32_t part = 0;
      if (plane.bits == 16) {
        part = std::to_integer<std::uint32_t>(wire[2 * e]) |
               std::to_integer<std::uint32_t>(wire[2 * e + 1]) << 8;
      } else {
        const Place at = place(plane, e);
        part = std::to_integer<std::uint32_t>(wire[at.byte] >> at.bit) & ((1u << plane.bits) - 1);
      }
      codes[e] |= part << shift;
    }
    wire += plane.bytes;
    shift += plane.bits;
  }
}

}  // namespace nf
