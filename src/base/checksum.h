// The checksum of frames: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nf {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// The checksum of a name: a parameter or a codec spec.
std::uint64_t checksum(std::string_view text);

}  // namespace nf
