// Vector form of encoding g_binary: signs and the sum of magnitudes in one pass.
#include "codec/sign/sign_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sign/g_binary_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/sign/counts-inl.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

// Computes the digits of block `b` and calls sink(p, positive) for every pack. Returns the scale.
template <class Sink>
HWY_INLINE float binary_digits(const SignBlocks& blocks, std::size_t b, const float* values,
                               Sink sink) {
  RunningSums sums;
  for (std::size_t p = 0; p < kSignPacks; ++p, values += kPack) {
    Masks positive;
    VU min = set_u(kMagnitudeMask);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      if (v * kLanes % 16 == 0) prefetch_ahead(values + v * kLanes);
      const VF x = load(values + v * kLanes);
      const VF size = hn::Abs(x);
      sums.at(v) = hn::Add(sums.at(v), size);
      min = hn::Min(min, bits(size));
      positive[v] = hn::Gt(x, hn::Zero(DF()));
    }
    if (HWY_UNLIKELY(!hn::AllFalse(DU(), hn::Eq(min, hn::Zero(DU()))))) {
      Masks zero;
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        zero[v] = hn::Eq(load(values + v * kLanes), hn::Zero(DF()));
      }
      draw_signs(blocks.zeros, blocks.first + b, p, zero, positive);
    }
    sink(p, positive);
  }
  return poison_unless_finite(sums.fold() / static_cast<float>(blocks.held));
}

void encode(const SignBlocks& blocks, const float* values, SignOut wire) {
  auto* codes = reinterpret_cast<std::uint8_t*>(wire.codes);
  const auto put = [&codes](std::size_t /*p*/, const Masks& positive)
                       HWY_ATTR { codes = put_bits(positive, codes); };
  for (std::size_t b = 0; b < blocks.count; ++b) {
    put_float(binary_digits(blocks, b, values + b * kSignBlock, put), wire.scales + 4 * b);
  }
}

template <class Reader, class Writer>
HWY_INLINE void count_up(const SignBlocks& blocks, SignIn wire, const float* values, SignOut out,
                         Reader reader, Writer writer) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const auto add = [&](std::size_t p, const Masks& positive) HWY_ATTR {
      VU code[kPackVectors];
      reader.read(b * kSignPacks + p, code);
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        // A true lane is -1.
        code[v] = hn::Sub(code[v], bits(hn::VecFromMask(DF(), positive[v])));
      }
      writer.write(b * kSignPacks + p, code);
    };
    const float own = binary_digits(blocks, b, values + b * kSignBlock, add);
    put_float(poison_unless_finite(own + get_float(wire.scales + 4 * b)), out.scales + 4 * b);
  }
}

void decode_add_encode(const SignBlocks& blocks, SignIn wire, const float* values, SignOut out) {
  if (!has_vector_form(wire.format) || !has_vector_form(out.format)) {
    g_binary_reference().decode_add_encode(blocks, wire, values, out);
    return;
  }
  with_width(wire.format.width(), [&](auto width) HWY_ATTR {
    const CountReader reader(wire.codes, width);
    if (out.format.voted) {
      count_up(blocks, wire, values, out, reader, VoteWriter(blocks, out));
    } else if (out.format.width() == width) {
      count_up(blocks, wire, values, out, reader, CountWriter(out.codes, width));
    } else {
      count_up(blocks, wire, values, out, reader, CountWriter(out.codes, FixedWidth<width + 1>()));
    }
  });
}

constexpr SignKernels kBinaryTable = {encode, decode_add_encode};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const SignKernels& g_binary_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kBinaryTable); }

}  // namespace nf
#endif
