// The loops of g_binary and g_ternary over whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"
#include "codec/sign/sign_format.h"

namespace nf {

// Consecutive blocks of a slice, and what all or one of the ranks know about them.
struct SignBlocks {
  std::size_t count = 0;
  std::uint64_t first = 0;  // index of the first one in its parameter
  std::size_t held =
      kSignBlock;         // real values of each, then zeros; fewer only in a lone last block
  DrawStream zeros;       // g_binary: the signs that an encoder gives exact zeros
  DrawStream ties;        // g_binary+majority: where there is no majority
  float tau = 0;          // g_ternary: gates open above tau times the mean magnitude
  bool majority = false;  // g_binary: all count as voting with the majority
};

// The arrays of a message, at the first of these blocks.
template <typename Byte>
struct SignWire {
  SignFormat format;
  Byte* scales = nullptr;  // FP32 per block
  Byte* codes = nullptr;
};
using SignIn = SignWire<const std::byte>;
using SignOut = SignWire<std::byte>;

// From values to digits: what tells the two codecs apart.
struct SignKernels {
  void (*encode)(const SignBlocks& blocks, const float* values, SignOut wire);
  void (*decode_add_encode)(const SignBlocks& blocks, SignIn wire, const float* values,
                            SignOut out);
};

// From codes to values and to other codes: one form for both codecs.
struct CountKernels {
  void (*decode)(const SignBlocks& blocks, SignIn wire, float* values);
  void (*decode_add)(const SignBlocks& blocks, SignIn wire, float* values);
  void (*merge)(const SignBlocks& blocks, SignIn first, SignIn second, SignOut out);
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
