// Vector form of convert.h.
#include "codec/convert_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/convert_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

using D16 = hn::Rebind<std::uint16_t, DU>;
using V16 = hn::Vec<D16>;

struct Float32 {
  static constexpr std::size_t kBytes = 4;
  static HWY_INLINE VF read(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static HWY_INLINE VF narrow(VF v) {
    return hn::IfThenElse(hn::IsNaN(v), from_bits(set_u(0x7fc00000u)), v);
  }
  static HWY_INLINE void write(VF v, std::byte* p) {
    hn::StoreU(narrow(v), DF(), reinterpret_cast<float*>(p));
  }
};

struct Bfloat16 {
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE VF read(const std::byte* p) {
    const V16 half = hn::LoadU(D16(), reinterpret_cast<const std::uint16_t*>(p));
    return from_bits(hn::ShiftLeft<16>(hn::PromoteTo(DU(), half)));
  }
  static HWY_INLINE V16 narrow(VF v) {
    const VU x = bits(v);
    const VU odd = hn::And(hn::ShiftRight<16>(x), set_u(1));
    const VU rounded = hn::ShiftRight<16>(hn::Add(x, hn::Add(odd, set_u(0x7fff))));
    const auto nan = hn::RebindMask(DU(), hn::IsNaN(v));
    const VU chosen = hn::IfThenElse(nan, set_u(kBfloat16Nan), rounded);
    return low_halves(chosen);
  }
  static HWY_INLINE void write(VF v, std::byte* p) {
    hn::StoreU(narrow(v), D16(), reinterpret_cast<std::uint16_t*>(p));
  }
  // The low 16 bits of lanes below 2^16.
  static HWY_INLINE V16 low_halves(VU v) {
#if HWY_TARGET == HWY_AVX3
    return V16{_mm512_cvtepi32_epi16(v.raw)};
#else
    return hn::DemoteTo(D16(), hn::BitCast(DI(), v));
#endif
  }
};

struct Float16 {
  static constexpr std::size_t kBytes = 2;
  using DH = hn::Rebind<hwy::float16_t, DF>;
  static HWY_INLINE VF read(const std::byte* p) {
    return hn::PromoteTo(DF(), hn::LoadU(DH(), reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static HWY_INLINE V16 narrow(VF v) {
    // A canonical NaN; the conversion alone would keep payload and sign.
    const VF canonical = hn::IfThenElse(hn::IsNaN(v), from_bits(set_u(0x7fc00000u)), v);
    return hn::BitCast(D16(), hn::DemoteTo(DH(), canonical));
  }
  static HWY_INLINE void write(VF v, std::byte* p) {
    hn::StoreU(narrow(v), D16(), reinterpret_cast<std::uint16_t*>(p));
  }
};

// The last count % kLanes values use the same code on a small buffer.
template <typename Type>
void widen(const std::byte* bytes, std::size_t count, float* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(Type::read(bytes + i * Type::kBytes), DF(), values + i);
  }
  if (i == count) return;
  std::byte in[kLanes * Type::kBytes] = {};
  float out[kLanes];
  std::memcpy(in, bytes + i * Type::kBytes, (count - i) * Type::kBytes);
  hn::StoreU(Type::read(in), DF(), out);
  std::memcpy(values + i, out, (count - i) * sizeof(float));
}

template <typename Type>
void narrow_tail(const float* values, std::size_t count, std::byte* bytes) {
  float in[kLanes] = {};
  std::byte out[kLanes * Type::kBytes];
  std::memcpy(in, values, count * sizeof(float));
  Type::write(load(in), out);
  std::memcpy(bytes, out, count * Type::kBytes);
}

template <typename Type>
void narrow(const float* values, std::size_t count, std::byte* bytes) {
  std::size_t i = 0;
  if (streams(count * Type::kBytes)) {
    // Write values until the output is aligned, then stream whole lines past the caches.
    const std::size_t head = values_to_alignment(bytes, Type::kBytes);
    if (head != kNeverAligned && head < count) {
      for (; i < head; i += std::min(kLanes, head - i)) {
        narrow_tail<Type>(values + i, std::min(kLanes, head - i), bytes + i * Type::kBytes);
      }
      for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
        prefetch_ahead(values + i);
        stream_halves(Type::narrow(load(values + i)), Type::narrow(load(values + i + kLanes)),
                      bytes + i * Type::kBytes);
      }
      hwy::FlushStream();
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    Type::write(load(values + i), bytes + i * Type::kBytes);
  }
  if (i < count) narrow_tail<Type>(values + i, count - i, bytes + i * Type::kBytes);
}

template <typename Type>
void add(const std::byte* bytes, std::size_t count, float* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Add(load(values + i), Type::read(bytes + i * Type::kBytes)), DF(), values + i);
  }
  if (i == count) return;
  float rest[kLanes];
  widen<Type>(bytes + i * Type::kBytes, count - i, rest);
  for (std::size_t k = 0; i + k < count; ++k) values[i + k] += rest[k];
}

template <typename Type>
void sum(const std::byte* bytes, const float* values, std::size_t count, std::byte* out) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Type::write(hn::Add(load(values + i), Type::read(bytes + i * Type::kBytes)),
                out + i * Type::kBytes);
  }
  if (i == count) return;
  float rest[kLanes];
  widen<Type>(bytes + i * Type::kBytes, count - i, rest);
  for (std::size_t k = 0; i + k < count; ++k) rest[k] += values[i + k];
  narrow_tail<Type>(rest, count - i, out + i * Type::kBytes);
}

constexpr ConvertKernels kConvert = {
    widen<Bfloat16>, widen<Float16>, narrow<Bfloat16>, narrow<Float16>, add<Float32>,
    add<Bfloat16>,   add<Float16>,   sum<Float32>,     sum<Bfloat16>,   sum<Float16>,
};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const ConvertKernels& convert_kernels_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kConvert); }

}  // namespace nf
#endif
