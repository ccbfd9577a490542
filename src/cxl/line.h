// A line, the unit of transfer between a host and its memory: 64 bytes at a multiple of 64.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace nf::cxl {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kLineWords = 8;
inline constexpr unsigned kLineShift = 6;

// Bit e of a line is bit e % 64 of word e / 64.
struct alignas(kLineBytes) Line {
  std::array<std::uint64_t, kLineWords> words{};

  friend bool operator==(const Line&, const Line&) = default;
};
static_assert(sizeof(Line) == kLineBytes && std::endian::native == std::endian::little);

// Takes up to 64 bytes and pads with zeros.
inline Line line_of(std::span<const std::byte> bytes) {
  Line line;
  std::memcpy(&line, bytes.data(), bytes.size());
  return line;
}

inline std::span<const std::byte, kLineBytes> bytes_of(const Line& line) {
  return std::as_bytes(std::span<const Line, 1>(&line, 1));
}

constexpr std::size_t lines_of(std::size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes; }

}  // namespace nf::cxl
