// Gradient values of any type in registers: consecutive values in 4 to 16 bytes per load or store,
// widened to FP32 and rounded back like base/float16.h on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "neuron_fabric/data_type.h"

namespace nf::device {

// 32-bit words of kCount values. kCount is even for 16-bit types.
template <DataType kType, int kCount>
inline constexpr int kValueWords = kType == DataType::kFloat32 ? kCount : kCount / 2;

// Loads kWords words in as few accesses as possible. Precondition: `from` is aligned to 4 * kWords
// bytes, or to 16 if that is less.
template <int kWords>
__device__ __forceinline__ void load_words(const void* from, std::uint32_t (&to)[kWords]) {
  if constexpr (kWords == 1) {
    to[0] = *static_cast<const std::uint32_t*>(from);
  } else if constexpr (kWords == 2) {
    const uint2 x = *static_cast<const uint2*>(from);
    to[0] = x.x;
    to[1] = x.y;
  } else {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 x = static_cast<const uint4*>(from)[i / 4];
      to[i] = x.x;
      to[i + 1] = x.y;
      to[i + 2] = x.z;
      to[i + 3] = x.w;
    }
  }
}

template <int kWords>
__device__ __forceinline__ void store_words(const std::uint32_t (&from)[kWords], void* to) {
  if constexpr (kWords == 1) {
    *static_cast<std::uint32_t*>(to) = from[0];
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(to) = make_uint2(from[0], from[1]);
  } else {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      static_cast<uint4*>(to)[i / 4] = make_uint4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
  }
}

// Exact. A NaN stays a NaN, with any payload.
template <DataType kType, int kWords, int kCount>
__device__ __forceinline__ void widen(const std::uint32_t (&words)[kWords],
                                      float (&values)[kCount]) {
  static_assert(kWords == kValueWords<kType, kCount>);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (kType == DataType::kFloat32) {
      values[i] = __uint_as_float(words[i]);
    } else if constexpr (kType == DataType::kBfloat16) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    } else {
      asm("{.reg .f16 low, high;\n"
          " mov.b32 {low, high}, %2;\n"
          " cvt.f32.f16 %0, low;\n"
          " cvt.f32.f16 %1, high;}"
          : "=f"(values[2 * i]), "=f"(values[2 * i + 1])
          : "r"(words[i]));
    }
  }
}

// Rounds to nearest, ties to even. A NaN of 16 bits becomes 0x7fff; see canonical_nans().
template <DataType kType, int kWords, int kCount>
__device__ __forceinline__ void narrow_numbers(const float (&values)[kCount],
                                               std::uint32_t (&words)[kWords]) {
  static_assert(kWords == kValueWords<kType, kCount>);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (kType == DataType::kFloat32) {
      words[i] = __float_as_uint(values[i]);
    } else if constexpr (kType == DataType::kBfloat16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
          : "=r"(words[i])
          : "f"(values[2 * i + 1]), "f"(values[2 * i]));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;"
          : "=r"(words[i])
          : "f"(values[2 * i + 1]), "f"(values[2 * i]));
    }
  }
}

// Replaces the NaN of the hardware conversions, 0x7fff, by the CPU's canonical NaN. 0x7fff is the
// largest signed 16-bit number, so a maximum finds it.
template <DataType kType, int kWords>
__device__ __forceinline__ void canonical_nans(std::uint32_t (&words)[kWords]) {
  if constexpr (kType != DataType::kFloat32) {
    std::uint32_t max = words[0];
#pragma unroll
    for (int i = 1; i < kWords; ++i) max = __vmaxs2(max, words[i]);
    if (((max + 0x00010001u) & ~max & 0x80008000u) == 0) return;
    constexpr std::uint32_t kNan = kType == DataType::kBfloat16 ? kBfloat16Nan : kFloat16Nan;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if ((words[i] & 0xffffu) == 0x7fffu) words[i] = (words[i] & 0xffff0000u) | kNan;
      if (words[i] >> 16 == 0x7fffu) words[i] = (words[i] & 0xffffu) | kNan << 16;
    }
  }
}

template <DataType kType, int kWords, int kCount>
__device__ __forceinline__ void narrow(const float (&values)[kCount],
                                       std::uint32_t (&words)[kWords]) {
  narrow_numbers<kType>(values, words);
  canonical_nans<kType>(words);
}

// Values [first, first + kCount) of an array. Precondition: the address is aligned as load_words()
// requires.
template <DataType kType, int kCount>
__device__ __forceinline__ void load_values(const void* values, std::size_t first,
                                            float (&to)[kCount]) {
  std::uint32_t words[kValueWords<kType, kCount>];
  load_words(static_cast<const std::byte*>(values) + first * size_of(kType), words);
  widen<kType>(words, to);
}

template <DataType kType, int kCount>
__device__ __forceinline__ void store_values(const float (&from)[kCount], void* values,
                                             std::size_t first) {
  std::uint32_t words[kValueWords<kType, kCount>];
  narrow<kType>(from, words);
  store_words(words, static_cast<std::byte*>(values) + first * size_of(kType));
}

// One value, for the end of a piece.
template <DataType kType>
__device__ __forceinline__ float load_value(const void* values, std::size_t i) {
  if constexpr (kType == DataType::kFloat32) {
    return static_cast<const float*>(values)[i];
  } else {
    const std::uint16_t bits = static_cast<const std::uint16_t*>(values)[i];
    return kType == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }
}

template <DataType kType>
__device__ __forceinline__ void store_value(float value, void* values, std::size_t i) {
  if constexpr (kType == DataType::kFloat32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<std::uint16_t*>(values)[i] =
        kType == DataType::kBfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
  }
}

// Values [first, first + kCount) of an array of `held` values. Elements past its end load as `rest`
// and are not stored.
template <DataType kType, int kCount>
__device__ __forceinline__ void load_values_before(const void* values, std::size_t first,
                                                   std::size_t held, float rest,
                                                   float (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] = first + i < held ? load_value<kType>(values, first + i) : rest;
  }
}

template <DataType kType, int kCount>
__device__ __forceinline__ void store_values_before(const float (&from)[kCount], void* values,
                                                    std::size_t first, std::size_t held) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (first + i < held) store_value<kType>(from[i], values, first + i);
  }
}

// The same for the bits of values. From `first` on there are `held` values, 0 or fewer if none.
template <DataType kType, int kWords>
__device__ __forceinline__ void load_words_before(const void* values, std::size_t first, int held,
                                                  std::uint32_t (&words)[kWords]) {
  if constexpr (kType == DataType::kFloat32) {
    const auto* at = static_cast<const std::uint32_t*>(values) + first;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = i < held ? at[i] : 0;
  } else {
    const auto* at = static_cast<const std::uint16_t*>(values) + first;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = 2 * i < held ? at[2 * i] : 0;
      if (2 * i + 1 < held) words[i] |= std::uint32_t{at[2 * i + 1]} << 16;
    }
  }
}

template <DataType kType, int kWords>
__device__ __forceinline__ void store_words_before(const std::uint32_t (&words)[kWords],
                                                   void* values, std::size_t first, int held) {
  if constexpr (kType == DataType::kFloat32) {
    auto* at = static_cast<std::uint32_t*>(values) + first;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (i < held) at[i] = words[i];
    }
  } else {
    auto* at = static_cast<std::uint16_t*>(values) + first;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (2 * i < held) at[2 * i] = static_cast<std::uint16_t>(words[i]);
      if (2 * i + 1 < held) at[2 * i + 1] = static_cast<std::uint16_t>(words[i] >> 16);
    }
  }
}

}  // namespace nf::device
