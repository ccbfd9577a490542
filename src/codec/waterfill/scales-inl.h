// Peaks, units and 4-bit scales of waterfill's super-groups.
#if defined(NF_CODEC_WATERFILL_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_WATERFILL_SCALES_INL_H_
#undef NF_CODEC_WATERFILL_SCALES_INL_H_
#else
#define NF_CODEC_WATERFILL_SCALES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/reduce-inl.h"
#include "codec/waterfill/waterfill_kernels.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

constexpr std::size_t kPacks = kSuperGroup / kPack;
constexpr std::size_t kHalfVectors = kPackVectors / 2;  // vectors per group of 16 values
constexpr std::size_t kScales = kSuperGroup / kWaterfillGroup;
constexpr std::size_t kScaleBytes = kScales / 2;

// Vectors of at most as many lanes as there are scales.
using DG = hn::CappedTag<float, kScales>;
using DGI = hn::RebindToSigned<DG>;
using DGU = hn::RebindToUnsigned<DG>;
using DG8 = hn::Rebind<std::uint8_t, DG>;

// The scales of a super-group, computed from its peaks.
struct Scales {
  alignas(64) float inverse[kScales];
  alignas(16) std::uint8_t code[kScales];  // the codes of the scales, one per byte
  std::uint16_t unit;                      // BF16; 0 or NaN if the super-group has no codes
  bool has_codes;
};

// The magnitudes of every group of 16 values that share a scale.
struct Peaks {
  VU rows[kScales][kHalfVectors];

  // GCC compiles a defaulted constructor without the target's instructions.
  HWY_INLINE Peaks() {}

  HWY_INLINE void set(std::size_t p, const VF (&x)[kPackVectors]) {
    for (std::size_t v = 0; v < kHalfVectors; ++v) {
      rows[2 * p][v] = magnitude(x[v]);
      rows[2 * p + 1][v] = magnitude(x[v + kHalfVectors]);
    }
  }
};

// Joins sixteen bytes below 16 to eight bytes; even ones become the low halves.
HWY_INLINE void join_nibbles(const std::uint8_t* from, std::byte* to) {
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t x;
    std::memcpy(&x, from + 8 * half, sizeof x);
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    const auto joined = static_cast<std::uint32_t>(x | x >> 16);
    std::memcpy(to + 4 * half, &joined, sizeof joined);
  }
}

HWY_INLINE void spread_nibbles(const std::byte* from, std::uint8_t* to) {
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint32_t joined;
    std::memcpy(&joined, from + 4 * half, sizeof joined);
    std::uint64_t x = (joined | std::uint64_t{joined} << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    std::memcpy(to + 8 * half, &x, sizeof x);
  }
}

HWY_INLINE void find_scales(const Peaks& peaks, float grid_step, Scales& out) {
  alignas(64) std::uint32_t group_peaks[kScales];
  reduce16(MaxOp(), peaks.rows, group_peaks);
  auto max_peak = hn::Load(DGU(), group_peaks);
  for (std::size_t g = hn::Lanes(DG()); g < kScales; g += hn::Lanes(DG())) {
    max_peak = hn::Max(max_peak, hn::Load(DGU(), group_peaks + g));
  }
  max_peak = hn::MaxOfLanes(DGU(), max_peak);
  const std::uint32_t peak = hn::GetLane(max_peak);
  out.has_codes = peak >= kMinPeakBits && peak < kPoisonBits;
  if (HWY_UNLIKELY(!out.has_codes)) {
    out.unit = peak >= kPoisonBits ? kBfloat16Nan : 0;
    return;
  }
  const auto raw_unit = hn::Mul(hn::BitCast(DG(), max_peak), hn::Set(DG(), kPeakToScaleUnit));
  const auto rounded_up = hn::Add(hn::BitCast(DGU(), raw_unit), hn::Set(DGU(), 0xffffu));
  const auto unit = hn::BitCast(DG(), hn::And(rounded_up, hn::Set(DGU(), 0xffff0000u)));
  out.unit = static_cast<std::uint16_t>(hn::GetLane(rounded_up) >> 16);
  for (std::size_t g = 0; g < kScales; g += hn::Lanes(DG())) {
    const auto group_peak = hn::BitCast(DG(), hn::Load(DGU(), group_peaks + g));
    const auto zero = hn::Eq(group_peak, hn::Zero(DG()));
    auto scale = hn::Floor(hn::Div(group_peak, unit));
    const auto low = hn::Lt(hn::Mul(scale, unit), group_peak);
    scale = hn::IfThenElse(low, hn::Add(scale, hn::Set(DG(), 1.0f)), scale);
    scale =
        hn::Min(hn::Max(scale, hn::Set(DG(), float{kMinScale})), hn::Set(DG(), float{kMaxScale}));
    const auto code = hn::IfThenZeroElse(zero, hn::Sub(scale, hn::Set(DG(), 4.0f)));
    hn::StoreU(hn::DemoteTo(DG8(), hn::ConvertTo(DGI(), code)), DG8(), out.code + g);
    const auto step = hn::Mul(hn::Mul(scale, unit), hn::Set(DG(), grid_step));
    const auto inverse = hn::IfThenZeroElse(zero, hn::Div(hn::Set(DG(), 1.0f), step));
    hn::Store(inverse, DG(), out.inverse + g);
  }
}

HWY_INLINE void put_scales(const Scales& scales, std::byte* unit_at, std::byte* scales_at) {
  put_u16(scales.unit, unit_at);
  if (scales.has_codes) {
    join_nibbles(scales.code, scales_at);
  } else {
    std::memset(scales_at, 0, kScaleBytes);
  }
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
