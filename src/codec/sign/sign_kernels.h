// The loops of g_binary and g_ternary over whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"
#include "codec/sign/sign_format.h"

namespace nf {

// Consecutive blocks of a slice, and what its encoder or decoder knows.
struct SignBlocks {
  std::size_t count = 0;
  std::uint64_t first = 0;  // index of the first one in its parameter
  std::size_t held =
      kSignBlock;         // real values of each, then zeros; fewer only in a lone last block
  DrawStream draws;       // g_binary: zeros when encoding, ties when decoding
  float tau = 0;          // g_ternary: gates open above tau times the mean magnitude
  bool majority = false;  // g_binary: all count as voting with the majority
};

// The arrays of a message, at the first of these blocks.
template <typename Byte>
struct SignWire {
  Byte* scales = nullptr;  // FP32 per block
  Byte* codes = nullptr;
};
using SignIn = SignWire<const std::byte>;
using SignOut = SignWire<std::byte>;

// From values to digits: what tells the two codecs apart.
struct SignKernels {
  void (*encode)(const SignBlocks& blocks, const float* values, SignOut wire);
  // `in` is the format of the incoming message.
  void (*decode_add_encode)(const SignBlocks& blocks, const SignFormat& in, SignIn wire,
                            const float* values, SignOut out);
};

// From codes to values: one form for both codecs.
struct CountKernels {
  void (*decode)(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values);
  void (*decode_add)(const SignBlocks& blocks, const SignFormat& format, SignIn wire,
                     float* values);
  // Whether some encoder could have written the codes of `count` values, padding not looked at.
  bool (*valid)(const SignFormat& format, const std::byte* codes, std::size_t count);
};

const SignKernels& g_binary_reference();
const SignKernels& g_ternary_reference();
const CountKernels& count_reference();

// Precondition: isa is one of available_isas() other than kScalar.
const SignKernels& g_binary_simd(Isa isa);
const SignKernels& g_ternary_simd(Isa isa);
const CountKernels& count_simd(Isa isa);

}  // namespace nf
