// Vector form of thc. A pack of 32 values is transformed in registers as it is read. The stages
// with longer distances process the block in the first-level cache, up to three stages per pass.
#include "codec/thc/thc_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/thc/thc_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/hadamard-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

constexpr std::size_t kMaxSize = 8192;
constexpr std::size_t kHalfVectors = kPackVectors / 2;
constexpr std::uint32_t kSignBit = 0x80000000u;

HWY_INLINE VF flushed(VF x) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), set(kThcMin)), x);  // NaN stays NaN
}

// Calls work(i, words) for every pack of the block. `words` starts at the draws of value i, the
// first of the pack.
template <typename Work>
HWY_INLINE void for_each_pack(const DrawStream& stream, std::uint64_t first, std::size_t size,
                              Work work) {
  const VU strides = DrawWords::strides();
  for (std::size_t i = 0; i < size;) {
    const std::uint64_t element = first + i;
    const std::size_t within = element % kDrawBlock;
    DrawKey key(stream, element / kDrawBlock);
    key.start += static_cast<std::uint32_t>(within / 2) * kWordStride;
    DrawWords words(key, strides);
    const std::size_t end = std::min(size, i + kDrawBlock - within);
    for (; i < end; i += kPack) work(i, words);
  }
}

// The sign bits of the rotation of a pack.
HWY_INLINE void signs_of(DrawWords& words, VU (&signs)[kPackVectors]) {
  for (std::size_t v = 0; v < kHalfVectors; ++v) {
    const VU word = words.next();
    signs[v] = hn::And(hn::ShiftLeft<16>(word), set_u(kSignBit));
    signs[v + kHalfVectors] = hn::And(word, set_u(kSignBit));
  }
}

HWY_INLINE const std::byte* get_codes(const std::byte* from, unsigned width,
                                      VU (&codes)[kPackVectors]) {
  if (width == kMaxWidth) {
    std::uint32_t lanes[kPack];
    nf::unpack_codes(from, width, lanes);
    for (std::size_t v = 0; v < kPackVectors; ++v) codes[v] = hn::LoadU(DU(), lanes + v * kLanes);
  } else {
    unpack_codes(reinterpret_cast<const std::uint8_t*>(from), width, codes);
  }
  return from + pack_bytes(width);
}

HWY_INLINE std::byte* put_codes(const VU (&codes)[kPackVectors], unsigned width, std::byte* to) {
  if (width == kMaxWidth) {
    std::uint32_t lanes[kPack];
    for (std::size_t v = 0; v < kPackVectors; ++v) hn::StoreU(codes[v], DU(), lanes + v * kLanes);
    nf::pack_codes(lanes, width, to);
  } else {
    pack_codes(codes, width, reinterpret_cast<std::uint8_t*>(to));
  }
  return to + pack_bytes(width);
}

void norms(const float* values, std::size_t blocks, std::size_t size, std::byte* out) {
  constexpr std::size_t kSums = 16 / kLanes;
  for (std::size_t b = 0; b < blocks; ++b) {
    VF sums[kSums];
    for (VF& sum : sums) sum = hn::Zero(DF());
    for (std::size_t i = 0; i < size; i += 16) {
      const float* from = values + b * size + i;
      prefetch_ahead(from);
      for (std::size_t v = 0; v < kSums; ++v) {
        const VF x = flushed(load(from + v * kLanes));
        sums[v] = hn::Add(sums[v], hn::Mul(x, x));
      }
    }
    alignas(64) float lanes[16];
    for (std::size_t v = 0; v < kSums; ++v) hn::Store(sums[v], DF(), lanes + v * kLanes);
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    const bool finite = std::isfinite(lanes[0]);
    put_u16(finite ? float_to_bfloat16_up(std::sqrt(lanes[0])) : kBfloat16Nan, out + 2 * b);
  }
}

// Calls sink(codes) for every pack of block b of one rank. Bits from 18 on are undefined.
template <typename Sink>
HWY_INLINE void quantise(const ThcBlocks& blocks, std::size_t b, const DrawStream& rounding,
                         const float* values, Sink sink) {
  const std::uint16_t norm = get_u16(blocks.norms + 2 * b);
  VU code[kPackVectors];
  if (!thc_has_codes(norm)) {
    for (VU& v : code) v = hn::Zero(DU());
    for (std::size_t p = 0; p < blocks.packs(); ++p) sink(code);
    return;
  }
  alignas(64) float h[kMaxSize];
  const LaneSigns lane_signs;
  const std::uint64_t first = blocks.first + b * blocks.size;
  const float* from = values + b * blocks.size;
  for_each_pack(blocks.rotation, first, blocks.size, [&](std::size_t i, DrawWords& words) HWY_ATTR {
    VU signs[kPackVectors];
    signs_of(words, signs);
    VF x[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      if (v * kLanes % 16 == 0) prefetch_ahead(from + i + v * kLanes);
      x[v] = flushed(load(from + i + v * kLanes));
      x[v] = from_bits(hn::Xor(bits(x[v]), signs[v]));
    }
    transform_pack(lane_signs, x);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      hn::Store(x[v], DF(), h + i + v * kLanes);
    }
  });
  transform_block(h, blocks.size);

  const VF to_codes = set(blocks.to_codes(bfloat16_to_float(norm)));
  const VF min = set(-kThcBelow);
  const VF max = set(static_cast<float>(kThcTop) - kThcBelow);
  const VF magic =
      set(0x1p23f + kThcBelow);  // the addition leaves the nearest code in the low bits
  for_each_pack(rounding, first, blocks.size, [&](std::size_t i, DrawWords& words) HWY_ATTR {
    VF dither[kPackVectors];
    for (std::size_t v = 0; v < kHalfVectors; ++v) {
      const VU word = words.next();
      const VU draw = set_u(0xffffu << 7);
      const VU rest = set_u(kThcDitherBits);
      dither[v] = from_bits(and_or(hn::ShiftLeft<7>(word), draw, rest));
      dither[v + kHalfVectors] = from_bits(and_or(hn::ShiftRight<9>(word), draw, rest));
    }
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      const VF position = hn::MulAdd(hn::Load(DF(), h + i + v * kLanes), to_codes, dither[v]);
      // NaN, which occurs only with wrong statistics, becomes the smallest code.
      const VF raised = hn::IfThenElse(hn::Gt(position, min), position, min);
      const VF clamped = hn::Min(raised, max);
      code[v] = bits(hn::Add(clamped, magic));
    }
    sink(code);
  });
}

void encode(const ThcBlocks& blocks, const DrawStream& rounding, const float* values,
            std::byte* wire) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    quantise(blocks, b, rounding, values, [&](const VU(&code)[kPackVectors]) HWY_ATTR {
      wire = put_codes(code, kThcWidth, wire);
    });
  }
}

// Adds codes and saturates.
class CodeSum {
 public:
  HWY_INLINE CodeSum(ThcCodes first, ThcCodes second, ThcCodes sum)
      : saturates_(thc_excess(first, second, sum) != 0),
        excess_(hn::Set(DI(), static_cast<std::int32_t>(thc_excess(first, second, sum)))),
        top_(hn::Set(DI(), static_cast<std::int32_t>(sum.top))),
        width_(sum.width()) {}

  // Writes the sum of two packs and returns the end of the output. Ignores bits of `code` from 18
  // on.
  HWY_INLINE std::byte* put(const VU (&code)[kPackVectors], const VU (&other)[kPackVectors],
                            std::byte* to) const {
    VU sum[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) sum[v] = hn::Add(code[v], other[v]);
    if (saturates_) {
      for (VU& v : sum) {
        const VI clean = hn::BitCast(DI(), hn::And(v, set_u((1u << 18) - 1)));
        const VI raised = hn::Max(hn::Sub(clean, excess_), hn::Zero(DI()));
        v = hn::BitCast(DU(), hn::Min(raised, top_));
      }
    }
    return put_codes(sum, width_, to);
  }

 private:
  const bool saturates_;
  const VI excess_;
  const VI top_;
  const unsigned width_;
};

void decode_add_encode(const ThcBlocks& blocks, const DrawStream& rounding, ThcIn wire,
                       const float* values, ThcOut out) {
  const unsigned width = wire.codes.width();
  const CodeSum sum(wire.codes, {.top = kThcTop}, out.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    quantise(blocks, b, rounding, values, [&](const VU(&code)[kPackVectors]) HWY_ATTR {
      VU other[kPackVectors];
      wire.bytes = get_codes(wire.bytes, width, other);
      out.bytes = sum.put(code, other, out.bytes);
    });
  }
}

void merge(std::size_t packs, ThcIn first, ThcIn second, ThcOut out) {
  const CodeSum sum(first.codes, second.codes, out.codes);
  for (std::size_t p = 0; p < packs; ++p) {
    VU code[kPackVectors];
    VU other[kPackVectors];
    first.bytes = get_codes(first.bytes, first.codes.width(), code);
    second.bytes = get_codes(second.bytes, second.codes.width(), other);
    out.bytes = sum.put(code, other, out.bytes);
  }
}

std::uint32_t max_code(const std::byte* wire, std::size_t packs, unsigned width) {
  VU max = hn::Zero(DU());
  for (std::size_t p = 0; p < packs; ++p) {
    VU codes[kPackVectors];
    wire = get_codes(wire, width, codes);
    for (const VU code : codes) max = hn::Max(max, code);
  }
  return hn::GetLane(hn::MaxOfLanes(DU(), max));
}

template <bool kAdd, bool kStream>
HWY_INLINE void put_values(const VF (&x)[kPackVectors], float* to) {
  for (std::size_t v = 0; v < kPackVectors; ++v) {
    float* at = to + v * kLanes;
    if (kAdd) {
      if (v * kLanes % 16 == 0) prefetch_ahead(at);
      hn::StoreU(hn::Add(load(at), x[v]), DF(), at);
    } else if (kStream) {
      hn::Stream(x[v], DF(), at);
    } else {
      hn::StoreU(x[v], DF(), at);
    }
  }
}

template <bool kAdd, bool kStream>
void decode_to(const ThcBlocks& blocks, ThcIn wire, float* values) {
  const unsigned width = wire.codes.width();
  const VF centre = set(wire.codes.centre());
  const LaneSigns lane_signs;
  alignas(64) float h[kMaxSize];
  for (std::size_t b = 0; b < blocks.count; ++b, values += blocks.size) {
    VF x[kPackVectors];
    const std::uint16_t norm = get_u16(blocks.norms + 2 * b);
    if (!thc_has_codes(norm)) {
      for (VF& v : x) v = from_bits(set_u(thc_is_poisoned(norm) ? 0x7fc00000u : 0));
      for (std::size_t i = 0; i < blocks.size; i += kPack) put_values<kAdd, kStream>(x, values + i);
      wire.bytes += blocks.packs() * pack_bytes(width);
      continue;
    }
    for (std::size_t i = 0; i < blocks.size; i += kPack) {
      VU codes[kPackVectors];
      wire.bytes = get_codes(wire.bytes, width, codes);
      for (std::size_t v = 0; v < kPackVectors; ++v) x[v] = hn::Sub(to_float(codes[v]), centre);
      transform_pack(lane_signs, x);
      for (std::size_t v = 0; v < kPackVectors; ++v) hn::Store(x[v], DF(), h + i + v * kLanes);
    }
    transform_block(h, blocks.size);

    const VF step = set(blocks.step(bfloat16_to_float(norm)));
    for_each_pack(blocks.rotation, blocks.first + b * blocks.size, blocks.size,
                  [&](std::size_t i, DrawWords& words) HWY_ATTR {
                    VU signs[kPackVectors];
                    signs_of(words, signs);
                    for (std::size_t v = 0; v < kPackVectors; ++v) {
                      const VF scaled = hn::Mul(hn::Load(DF(), h + i + v * kLanes), step);
                      x[v] = from_bits(hn::Xor(bits(scaled), signs[v]));
                    }
                    put_values<kAdd, kStream>(x, values + i);
                  });
  }
  if (kStream) hwy::FlushStream();
}

void decode(const ThcBlocks& blocks, ThcIn wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (aligned && streams(blocks.count * blocks.size * sizeof(float))) {
    decode_to<false, true>(blocks, wire, values);
  } else {
    decode_to<false, false>(blocks, wire, values);
  }
}

void decode_add(const ThcBlocks& blocks, ThcIn wire, float* values) {
  decode_to<true, false>(blocks, wire, values);
}

constexpr ThcKernels kThc = {norms, encode, max_code, decode, decode_add, decode_add_encode, merge};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const ThcKernels& thc_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kThc); }

}  // namespace nf
#endif
