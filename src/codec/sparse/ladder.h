// The ladder of omnireduce (docs/codecs/omnireduce.md): lists of a parameter's loudest blocks, from
// rung 1, which lists all of them, to the last, which lists one.
#pragma once

#include <cstdint>

namespace nf {

inline constexpr std::uint32_t kMostRung = 254;

// How many of a parameter's blocks a rung lists: at least the loudest.
constexpr std::uint64_t blocks_on(std::uint32_t rung, std::uint64_t blocks) {
  // 2^16 * 2^(-i / 8), to the nearest.
  const std::uint64_t eighths_of_octave[] = {65536, 60097, 55109, 50535,
                                             46341, 42495, 38968, 35734};
  const std::uint32_t step = rung - 1;
  const std::uint64_t listed = blocks * eighths_of_octave[step % 8] >> (16 + step / 8);
  return listed > 1 ? listed : 1;
}

// The highest rung that lists the block at `place` of a parameter's order by loudness.
// Precondition: place < blocks.
constexpr std::uint32_t highest_rung(std::uint64_t place, std::uint64_t blocks) {
  std::uint32_t low = 1;               // lists the block
  std::uint32_t high = kMostRung + 1;  // does not, or is none
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (place < blocks_on(middle, blocks)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace nf
