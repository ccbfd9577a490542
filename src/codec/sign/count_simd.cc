// Vector form of decoding and merging g_binary and g_ternary.
#include "codec/sign/sign_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sign/count_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <utility>

#include "codec/sign/counts-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

enum class Store { kAdd, kPlain, kStream };

template <Store kStore>
HWY_INLINE void store_value(VF value, std::size_t v, float* at) {
  if constexpr (kStore == Store::kAdd) {
    if (v * kLanes % 16 == 0) prefetch_ahead(at);
    hn::StoreU(hn::Add(load(at), value), DF(), at);
  } else if constexpr (kStore == Store::kStream) {
    hn::Stream(value, DF(), at);
  } else {
    hn::StoreU(value, DF(), at);
  }
}

// One contribution of g_binary, or a vote: a bit chooses between the scale and its negative.
template <Store kStore>
void decode_bits(const SignBlocks& blocks, SignIn wire, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire.codes);
  const auto contributions = static_cast<float>(wire.format.contributions);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float factor = get_float(wire.scales + 4 * b) / contributions;
    const VF plus = set(factor * contributions);
    const VF minus = hn::Sub(hn::Zero(DF()), plus);  // +0 if the scale is 0
    for (std::size_t p = 0; p < kSignPacks; ++p, to += kPack, codes += pack_bytes(1)) {
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        const VF value = hn::IfThenElse(get_bits(codes, v), plus, minus);
        store_value<kStore>(value, v, to + v * kLanes);
      }
    }
  }
}

// One contribution of g_ternary: a table lookup per digit.
template <Store kStore>
void decode_trits(const SignBlocks& blocks, SignIn wire, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float scale = get_float(wire.scales + 4 * b);
    HWY_ALIGN const float level[kLanes] = {0.0f - scale, 0.0f * scale, scale};
    const VF levels = hn::Load(DF(), level);
    for (std::size_t u = 0; u < kTritUnits; ++u, codes += kTritUnitBytes) {
      const Trits trits(codes);
      for (std::size_t i = 0; i < kTritsPerByte; ++i, to += kPack) {
        VU digit[kPackVectors];
        trits.pack(i, digit);
        for (std::size_t v = 0; v < kPackVectors; ++v) {
          const auto index = hn::IndicesFromVec(DF(), hn::BitCast(DI(), digit[v]));
          store_value<kStore>(hn::TableLookupLanes(levels, index), v, to + v * kLanes);
        }
      }
    }
  }
}

template <Store kStore, class Reader>
HWY_INLINE void decode_counts(const SignBlocks& blocks, SignIn wire, Reader reader, float* to) {
  const auto contributions = static_cast<float>(wire.format.contributions);
  const VF step = set(wire.format.step());
  const VF all = set(contributions);
  const VF none = set(-contributions);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const VF factor = set(get_float(wire.scales + 4 * b) / contributions);
    for (std::size_t p = 0; p < kSignPacks; ++p, to += kPack) {
      VU code[kPackVectors];
      reader.read(p, code);
      VF level[kPackVectors];
      if (blocks.majority) {
        Masks positive;
        majority_of(blocks, b, p, wire.format.contributions, code, positive);
        for (std::size_t v = 0; v < kPackVectors; ++v) {
          level[v] = hn::IfThenElse(positive[v], all, none);
        }
      } else {
        for (std::size_t v = 0; v < kPackVectors; ++v) {
          level[v] = hn::MulAdd(to_float(code[v]), step, none);
        }
      }
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        // Adding zero turns -0 into +0.
        const VF value = hn::MulAdd(factor, level[v], hn::Zero(DF()));
        store_value<kStore>(value, v, to + v * kLanes);
      }
    }
  }
}

template <Store kStore>
void decode_to(const SignBlocks& blocks, SignIn wire, float* values) {
  if (wire.format.has_trits()) {
    decode_trits<kStore>(blocks, wire, values);
  } else if (wire.format.width() == 1) {
    decode_bits<kStore>(blocks, wire, values);
  } else {
    with_width(wire.format.width(), [&](auto width) HWY_ATTR {
      decode_counts<kStore>(blocks, wire, CountReader(wire.codes, width), values);
    });
  }
  if constexpr (kStore == Store::kStream) hwy::FlushStream();
}

void decode(const SignBlocks& blocks, SignIn wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (!has_vector_form(wire.format)) {
    count_reference().decode(blocks, wire, values);
  } else if (aligned && streams(blocks.count * kSignBlock * sizeof(float))) {
    decode_to<Store::kStream>(blocks, wire, values);
  } else {
    decode_to<Store::kPlain>(blocks, wire, values);
  }
}

void decode_add(const SignBlocks& blocks, SignIn wire, float* values) {
  if (!has_vector_form(wire.format)) {
    count_reference().decode_add(blocks, wire, values);
  } else {
    decode_to<Store::kAdd>(blocks, wire, values);
  }
}

template <class First, class Second, class Writer>
HWY_INLINE void add_codes(std::size_t packs, First first, Second second, Writer writer) {
  for (std::size_t p = 0; p < packs; ++p) {
    VU code[kPackVectors];
    VU other[kPackVectors];
    first.read(p, code);
    second.read(p, other);
    for (std::size_t v = 0; v < kPackVectors; ++v) code[v] = hn::Add(code[v], other[v]);
    writer.write(p, code);
  }
}

void merge(const SignBlocks& blocks, SignIn first, SignIn second, SignOut out) {
  if (!has_vector_form(first.format) || !has_vector_form(second.format) ||
      !has_vector_form(out.format)) {
    count_reference().merge(blocks, first, second, out);
    return;
  }
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float scale = get_float(first.scales + 4 * b) + get_float(second.scales + 4 * b);
    put_float(poison_unless_finite(scale), out.scales + 4 * b);
  }
  if (second.format.has_trits()) std::swap(first, second);
  // There are too many combinations of the three widths for compile-time widths.
  const std::size_t packs = blocks.count * kSignPacks;
  const CountReader first_counts(first.codes, first.format.width());
  const CountReader second_counts(second.codes, second.format.width());
  const CountWriter sums(out.codes, out.format.width());
  if (out.format.voted) {
    add_codes(packs, first_counts, second_counts, VoteWriter(blocks, out));
  } else if (second.format.has_trits()) {
    add_codes(packs, TritReader(first.codes), TritReader(second.codes), sums);
  } else if (first.format.has_trits()) {
    add_codes(packs, TritReader(first.codes), second_counts, sums);
  } else {
    add_codes(packs, first_counts, second_counts, sums);
  }
}

// A unit of trits is a whole number of vectors.
bool trits_are_valid(const std::byte* bytes, std::size_t size) {
  const hn::CappedTag<std::uint8_t, kTritUnitBytes> d;
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes);
  auto max = hn::Zero(d);
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) max = hn::Max(max, hn::LoadU(d, from + i));
  const auto limit = hn::Set(d, std::uint8_t{kMaxTritByte});
  return hn::AllTrue(d, hn::Eq(hn::Max(max, limit), limit));
}

bool valid(const SignFormat& format, const std::byte* codes, std::size_t count) {
  if (format.has_trits()) return trits_are_valid(codes, format.code_bytes(count));
  if (format.max_code() + 1 == std::uint64_t{1} << format.width()) return true;
  if (!has_vector_form(format)) return count_reference().valid(format, codes, count);
  VU max = hn::Zero(DU());
  with_width(format.width(), [&max, codes, count](auto width) HWY_ATTR {
    CountReader reader(codes, width);
    for (std::size_t p = 0; p < packs_of(count); ++p) {
      VU code[kPackVectors];
      reader.read(p, code);
      for (std::size_t v = 0; v < kPackVectors; ++v) max = hn::Max(max, code[v]);
    }
  });
  const VU limit = set_u(static_cast<std::uint32_t>(format.max_code()));
  return hn::AllTrue(DU(), hn::Eq(hn::Max(max, limit), limit));
}

constexpr CountKernels kCountTable = {decode, decode_add, merge, valid};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const CountKernels& count_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kCountTable); }

}  // namespace nf
#endif
