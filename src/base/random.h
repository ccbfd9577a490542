// Counter-based random numbers: every draw is a function of where it is used, not of when, so that
// lanes, threads, tiles and devices draw the same bits (docs/random.md has the test vectors).
//
// Draws come in blocks of 256 elements. A block has a key of 64 bits, mixed from everything that
// identifies it; inside it, word w (0 <= w < 128) is a 32-bit hash of the key and w, and serves two
// elements with 16 bits each: of a group of 32 elements, element j takes the low and element j + 16
// the high half of word 16 * group + j.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nf {

// What a draw is for. Draws of different purposes are independent.
enum class DrawPurpose : std::uint64_t {
  kDither = 1,      // waterfill
  kRounding = 2,    // dynamiq (private part), thc
  kShift = 3,       // dynamiq: the permutation that all ranks share
  kGroupScale = 4,  // dynamiq
  kSign = 5,        // g_binary: the sign of an exact zero, and ties
  kRotation = 6,    // thc: the signs of the rotation, shared by all ranks
  kMerge = 7,       // marsit: which of two bits a merge takes
  kLowRank = 8,     // powersgd: the columns to start from
};

// The encoder of draws that all ranks share.
inline constexpr std::uint32_t kSharedEncoder = 0xffffffffu;

inline constexpr std::size_t kDrawBlock = 256;

// A bijection of 64 bits in which every input bit moves every output bit (the finaliser of
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

// Everything that identifies a stream of draws. One is made per encode or decode.
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

// Seven vector instructions for two draws (six where xor takes three operands). One multiplication
// suffices because the key brings 64 mixed bits and a block needs only 128 words.
constexpr std::uint32_t draw_word(DrawKey key, std::uint32_t word) {
  std::uint32_t x = key.start + word * kWordStride;
  x ^= (x >> 16) ^ key.twist;
  x *= kWordMultiplier;
  return x ^ (x >> 16);
}

// The 16 bits of one element of the block.
constexpr std::uint32_t draw16(DrawKey key, std::uint32_t element) {
  const std::uint32_t group = element / 32;
  const std::uint32_t lane = element % 32;
  const std::uint32_t word = draw_word(key, group * 16 + lane % 16);
  return lane < 16 ? word & 0xffffu : word >> 16;
}

}  // namespace nf
