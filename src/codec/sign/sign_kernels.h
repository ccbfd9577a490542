// The kernels of g_binary and g_ternary for whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"
#include "codec/sign/sign_format.h"

namespace nf {

// Consecutive blocks of a slice and the codec's settings.
struct SignBlocks {
  std::size_t count = 0;
  std::uint64_t first = 0;        // index of the first one in its parameter
  std::size_t held = kSignBlock;  // values per block before the padding; less only if count is 1
  DrawStream zeros;               // g_binary: the encoder's signs of exact zeros
  DrawStream ties;                // g_binary+majority: the signs of ties
  float tau = 0;                  // g_ternary: gates open above tau times the mean magnitude
  bool majority = false;          // g_binary+majority
};

// The arrays of a message, from the first of these blocks on.
template <typename Byte>
struct SignWire {
  SignFormat format;
  Byte* scales = nullptr;  // FP32 per block
  Byte* codes = nullptr;
};
using SignIn = SignWire<const std::byte>;
using SignOut = SignWire<std::byte>;

// Values to digits; different in the two codecs.
struct SignKernels {
  void (*encode)(const SignBlocks& blocks, const float* values, SignOut wire);
  void (*decode_add_encode)(const SignBlocks& blocks, SignIn wire, const float* values,
                            SignOut out);
};

// Codes to values and to other codes; the same for both codecs.
struct CountKernels {
  void (*decode)(const SignBlocks& blocks, SignIn wire, float* values);
  void (*decode_add)(const SignBlocks& blocks, SignIn wire, float* values);
  void (*merge)(const SignBlocks& blocks, SignIn first, SignIn second, SignOut out);
  // Whether the codes of `count` values are valid. Ignores the padding.
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
