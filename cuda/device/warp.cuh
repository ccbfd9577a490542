// Operations between the lanes of a warp, and single instructions that C++ cannot express.
#pragma once

#include <cstdint>

namespace nf::device {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// The value of lane `from` of each kLanes lanes.
template <unsigned kLanes, typename T>
__device__ __forceinline__ T from_lane(T value, unsigned from) {
  return __shfl_sync(kAllLanes, value, static_cast<int>(from), static_cast<int>(kLanes));
}

template <typename T>
__device__ __forceinline__ T from_neighbour(T value, int distance) {
  return __shfl_xor_sync(kAllLanes, value, distance);
}

__device__ __forceinline__ bool any_lane(bool value) { return __any_sync(kAllLanes, value) != 0; }

// The maximum over each kLanes lanes, 16 or 32.
template <unsigned kLanes>
__device__ __forceinline__ std::uint32_t max_of_lanes(std::uint32_t value) {
  static_assert(kLanes == 16 || kLanes == kWarp);
  if constexpr (kLanes == kWarp) return __reduce_max_sync(kAllLanes, value);
  const bool is_upper = threadIdx.x % kWarp >= kLanes;
  const std::uint32_t lower = __reduce_max_sync(kAllLanes, is_upper ? 0 : value);
  const std::uint32_t upper = __reduce_max_sync(kAllLanes, is_upper ? value : 0);
  return is_upper ? upper : lower;
}

// max(a, |b|); NaN if either is NaN. Precondition: a is not negative.
__device__ __forceinline__ float max_magnitude(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(fabsf(b)));
  return result;
}

// (x & mask) | bits in one instruction; the compiler would use one per constant.
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t x, std::uint32_t mask,
                                                   std::uint32_t bits) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
  return result;
}

// ~(a ^ b) in one instruction.
__device__ __forceinline__ std::uint32_t equal_bits(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, 0, 0xc3;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// x * factor + addend in one instruction, even for constants.
__device__ __forceinline__ std::uint32_t multiply_add(std::uint32_t x, std::uint32_t factor,
                                                      std::uint32_t addend) {
  std::uint32_t result;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(factor), "r"(addend));
  return result;
}

// 1 / x, correctly rounded, for 2^-126 <= x < 2^126: one Newton step from the hardware's estimate,
// as in a division by a number of this range.
__device__ __forceinline__ float reciprocal(float x) {
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return __fmaf_rn(estimate, __fmaf_rn(-x, estimate, 1.0f), estimate);
}

// 1 / x to within about an ulp, for the same range.
__device__ __forceinline__ float reciprocal_estimate(float x) {
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return estimate;
}

}  // namespace nf::device
