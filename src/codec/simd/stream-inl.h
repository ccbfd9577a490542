// Streaming stores for large outputs. They bypass the caches: a normal store that misses would
// first read the line that it overwrites.
#if defined(NF_CODEC_SIMD_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_STREAM_INL_H_
#undef NF_CODEC_SIMD_STREAM_INL_H_
#else
#define NF_CODEC_SIMD_STREAM_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codec/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// Outputs from this size on do not stay in the caches (measured in bench/README.md).
inline constexpr std::size_t kStreamBytes = std::size_t{4} << 20;

HWY_INLINE bool streams(std::size_t output_bytes) { return output_bytes >= kStreamBytes; }

// The prefetch distance in bytes.
inline constexpr std::size_t kPrefetchBytes = 4096;

HWY_INLINE void prefetch_ahead(const void* at) {
  hwy::Prefetch(static_cast<const std::byte*>(at) + kPrefetchBytes);
}

inline constexpr std::size_t kNeverAligned = ~std::size_t{0};

// The number of values of `value_bytes` bytes up to the next multiple of 64 bytes.
HWY_INLINE std::size_t values_to_alignment(const void* to, std::size_t value_bytes) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % 64;
  const std::size_t missing = (64 - past) % 64;
  return missing % value_bytes == 0 ? missing / value_bytes : kNeverAligned;
}

// Stores two half vectors of 16-bit values at once.
template <class V>
HWY_INLINE void stream_halves(V low, V high, std::byte* to) {
  const hn::ScalableTag<std::uint16_t> d;
  hn::Stream(hn::Combine(d, high, low), d, reinterpret_cast<std::uint16_t*>(to));
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
