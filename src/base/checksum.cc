#include "base/checksum.h"

// <xxhash.h>, or <xxh_x86dispatch.h>, which replaces the functions by those for the CPU.
#include NF_XXHASH_HEADER

namespace nf {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace nf
