// Counter-based random numbers: a draw is a function of its position, not of previous draws, so
// that lanes, threads, tiles and devices draw the same bits (test vectors: docs/random.md).
//
// A block of 256 elements has a 64-bit key, a hash of everything that identifies the block. Word w
// (0 <= w < 128) of the block is a 32-bit hash of the key and w. It contains the 16-bit draws of
// two elements: in pack p of 32 elements, element j uses the low half and element j + 16 the high
// half of word 16 * p + j.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nf {

// Draws for different purposes are independent.
enum class DrawPurpose : std::uint64_t {
  kDither = 1,      // waterfill
  kRounding = 2,    // dynamiq (private part), thc
  kShift = 3,       // dynamiq: the shared permutation of strata
  kGroupScale = 4,  // dynamiq
  kSign = 5,        // g_binary: the sign of an exact zero, and ties
  kRotation = 6,    // thc (shared by all ranks), rotated: the signs of the rotation
  kMerge = 7,       // marsit: the choice between two bits in a merge
  kLowRank = 8,     // powersgd: the initial columns
};

// The encoder of draws that all ranks share.
inline constexpr std::uint32_t kSharedEncoder = 0xffffffffu;

inline constexpr std::size_t kDrawBlock = 256;

// A bijection of 64 bits in which every input bit affects every output bit (the finaliser of
// SplitMix64).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x;
}

inline constexpr std::uint64_t kGolden64 = 0x9e3779b97f4a7c15u;

// Identifies a stream of draws. There is one per encode or decode.
struct DrawStream {
  std::uint64_t key = 0;

  constexpr DrawStream(std::uint64_t seed, std::uint64_t step, std::uint64_t parameter,
                       std::uint32_t encoder, DrawPurpose purpose)
      : key(mix64(mix64(mix64(mix64(seed + kGolden64) ^ step) ^ parameter) ^
                  (static_cast<std::uint64_t>(purpose) << 32 | encoder))) {}
};

// The key of one block of 256 elements of a parameter.
struct DrawKey {
  std::uint32_t start = 0;
  std::uint32_t twist = 0;

  constexpr DrawKey(const DrawStream& stream, std::uint64_t block) {
    const std::uint64_t mixed = mix64(stream.key + block * kGolden64);
    start = static_cast<std::uint32_t>(mixed);
    twist = static_cast<std::uint32_t>(mixed >> 32);
  }
};

inline constexpr std::uint32_t kWordStride = 0xa93cc69du;  // Weyl sequence of the counter
inline constexpr std::uint32_t kWordMultiplier = 0xd35a2d97u;

// Seven vector instructions for two draws (six with a three-operand xor). One multiplication is
// enough because the key has 64 mixed bits and a block needs only 128 words.
constexpr std::uint32_t draw_word(DrawKey key, std::uint32_t word) {
  std::uint32_t x = key.start + word * kWordStride;
  x ^= (x >> 16) ^ key.twist;
  x *= kWordMultiplier;
  return x ^ (x >> 16);
}

// The 16 bits of one element of the block.
constexpr std::uint32_t draw16(DrawKey key, std::uint32_t element) {
  const std::uint32_t pack = element / 32;
  const std::uint32_t lane = element % 32;
  const std::uint32_t word = draw_word(key, pack * 16 + lane % 16);
  return lane < 16 ? word & 0xffffu : word >> 16;
}

}  // namespace nf
