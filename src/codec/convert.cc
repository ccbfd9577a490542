// The scalar reference of convert.h, and the selection of the form.
#include "codec/convert.h"

#include <bit>
#include <cstring>

#include "base/float16.h"
#include "codec/convert_simd.h"

namespace nf {
namespace {

// The sum of two NaNs is either of them, depending on the compiler, so sums use a canonical NaN.
struct Float32 {
  using Bits = std::uint32_t;
  static float widen(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits narrow(float x) { return x != x ? 0x7fc00000u : std::bit_cast<Bits>(x); }
};
struct Bfloat16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) { return bfloat16_to_float(bits); }
  static Bits narrow(float x) { return float_to_bfloat16(x); }
};
struct Float16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) { return float16_to_float(bits); }
  static Bits narrow(float x) { return float_to_float16(x); }
};

template <typename Type>
float read(const std::byte* bytes, std::size_t i) {
  typename Type::Bits bits;
  std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
  return Type::widen(bits);
}

template <typename Type>
void write(float x, std::byte* bytes, std::size_t i) {
  const typename Type::Bits bits = Type::narrow(x);
  std::memcpy(bytes + i * sizeof bits, &bits, sizeof bits);
}

template <typename Type>
void widen(const std::byte* bytes, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = read<Type>(bytes, i);
}

template <typename Type>
void narrow(const float* values, std::size_t count, std::byte* bytes) {
  for (std::size_t i = 0; i < count; ++i) write<Type>(values[i], bytes, i);
}

template <typename Type>
void add(const std::byte* bytes, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] += read<Type>(bytes, i);
}

template <typename Type>
void sum(const std::byte* bytes, const float* values, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) write<Type>(values[i] + read<Type>(bytes, i), out, i);
}

constexpr ConvertKernels kReference = {
    widen<Bfloat16>, widen<Float16>, narrow<Bfloat16>, narrow<Float16>, add<Float32>,
    add<Bfloat16>,   add<Float16>,   sum<Float32>,     sum<Bfloat16>,   sum<Float16>,
};

}  // namespace

const ConvertKernels& convert_kernels(Isa isa) {
  return isa == Isa::kScalar ? kReference : convert_kernels_simd(isa);
}

}  // namespace nf
