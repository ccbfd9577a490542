// The ladder of omnireduce (docs/codecs/omnireduce.md). Every rung is a list of the blocks of a
// parameter with the largest norms: rung 1 lists all blocks, the last rung one block.
#pragma once

#include <cstdint>

namespace nf {

inline constexpr std::uint32_t kMaxRung = 254;

// The number of blocks on a rung, at least one.
constexpr std::uint64_t blocks_on(std::uint32_t rung, std::uint64_t blocks) {
  // 2^16 * 2^(-i / 8), to the nearest.
  const std::uint64_t eighths_of_octave[] = {65536, 60097, 55109, 50535,
                                             46341, 42495, 38968, 35734};
  const std::uint32_t step = rung - 1;
  const std::uint64_t listed = blocks * eighths_of_octave[step % 8] >> (16 + step / 8);
  return listed > 1 ? listed : 1;
}

// The highest rung that lists the block at position `place` of the order by descending norm.
// Precondition: place < blocks.
constexpr std::uint32_t highest_rung(std::uint64_t place, std::uint64_t blocks) {
  std::uint32_t low = 1;              // a rung that lists the block
  std::uint32_t high = kMaxRung + 1;  // a rung that does not
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
