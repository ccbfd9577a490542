// mxfp8, mxfp6, mxfp4: OCP Microscaling elements of 8, 6 and 4 bits in blocks of 32. All ranks
// share the scale of a block, with headroom for the sum (docs/codecs/mxfp.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/float16.h"
#include "codec/block_codec.h"
#include "codec/codes.h"
#include "codec/make_codecs.h"
#include "codec/mx/mx_kernels.h"

namespace nf {
namespace {

static_assert(kMxBlock == kPack);

constexpr int kMaxHeadroom = 16;
constexpr int kHeadroomByRanks = -1;

enum class MxSum {
  kOnce,       // a hop rounds once, after the sum
  kPublished,  // the published baseline: a hop also rounds its own values; a different scale
};

const MxKernels& kernels_of(Isa isa, const MxFormat& format, MxSum sum) {
  if (sum == MxSum::kPublished) return mx_published(format);
  return isa == Isa::kScalar ? mx_reference(format) : mx_simd(isa, format);
}

// The ratio of the published scale to the scale of one rank. Rounded to BF16, so that elements and
// their sums are exact in FP32 and ties stay ties.
float published_stretch(const MxFormat& format, std::uint32_t ranks) {
  const double n = ranks;
  double peak = 0;  // the element of the block's peak rounded up to a power of two
  switch (format.width()) {
    case kE4m3.width(): peak = 335 / n; break;
    case kE3m2.width(): peak = 20 / n; break;
    default: peak = 6 / std::sqrt(2 * n); break;
  }
  const double stretch = std::ldexp(1.0, format.max_exponent() + 1) / peak;
  return bfloat16_to_float(float_to_bfloat16(static_cast<float>(stretch)));
}

class Mx final : public BlockCodec {
 public:
  Mx(const CodecSpec& spec, const MxFormat& format, MxSum sum, int headroom, Isa isa)
      : BlockCodec(spec, kMxBlock, isa),
        format_(format),
        sum_(sum),
        headroom_(headroom),
        kernels_(kernels_of(isa, format, sum)) {}

  CodecKind kind() const override { return CodecKind::kRequantising; }

  std::size_t statistics_size(std::size_t count) const override { return blocks_of(count); }

  std::size_t encoded_size(const Slice& slice, std::uint32_t /*contributions*/) const override {
    return bytes_of(blocks_of(slice.count));
  }

 protected:
  void do_statistics(ConstValues values, std::span<std::byte> out) const override {
    for_each_run(values, [&](Run run, const float* from) {
      kernels_.statistics(from, run.blocks, out.data() + run.block);
    });
  }

  // The largest exponent of any rank. 255 marks non-finite values.
  Status do_combine_statistics(std::size_t /*count*/,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override {
    std::copy(by_rank[0].begin(), by_rank[0].end(), combined.begin());
    for (const auto& rank : by_rank.subspan(1)) {
      std::transform(rank.begin(), rank.end(), combined.begin(), combined.begin(),
                     [](std::byte a, std::byte b) { return std::max(a, b); });
    }
    return {};
  }

  Status do_validate(const Slice& slice, Origin /*origin*/, const std::byte* wire) const override {
    const std::size_t held = slice.count % kMxBlock;
    if (held == 0) return {};
    std::uint32_t codes[kMxBlock];
    unpack_codes(wire + bytes_of(slice.count / kMxBlock), format_.width(), codes);
    for (std::size_t i = held; i < kMxBlock; ++i) {
      if (codes[i] == 0) continue;
      return {ErrorCode::kCorruptFrame,
              fmt::format("non-zero element {:#04x} in the padding of the last block", codes[i])};
    }
    return {};
  }

  void do_encode(const Slice& slice, Origin /*origin*/, ConstValues values,
                 std::byte* wire) const override {
    for_each_run(values, [&](Run run, const float* from) {
      kernels_.encode(mx_blocks(slice, run), from, wire + bytes_of(run.block));
    });
  }

  void do_decode(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                 Values values) const override {
    for_each_run(values, false, [&](Run run, float* to) {
      kernels_.decode(mx_blocks(slice, run), wire + bytes_of(run.block), to);
    });
  }

  void do_decode_add(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                     Values values) const override {
    for_each_run(values, true, [&](Run run, float* to) {
      kernels_.decode_add(mx_blocks(slice, run), wire + bytes_of(run.block), to);
    });
  }

  void do_decode_add_encode(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                            ConstValues values, Origin /*total*/, std::byte* out) const override {
    for_each_run(values, [&](Run run, const float* from) {
      const std::size_t at = bytes_of(run.block);
      kernels_.decode_add_encode(mx_blocks(slice, run), wire + at, from, out + at);
    });
  }

 private:
  std::size_t bytes_of(std::size_t blocks) const { return blocks * pack_bytes(format_.width()); }

  // A sum of n values can grow by a factor of n. E2M1 has only eight magnitudes: its headroom is
  // for the factor sqrt(n) of independent values.
  unsigned headroom(std::uint32_t ranks) const {
    if (headroom_ != kHeadroomByRanks) return static_cast<unsigned>(headroom_);
    const unsigned growth = growth_of(ranks);
    return format_.width() == kE2m1.width() ? (growth + 1) / 2 : growth;
  }

  MxBlocks mx_blocks(const Slice& slice, Run run) const {
    const std::size_t first = static_cast<std::size_t>(slice.first / kMxBlock) + run.block;
    const std::byte* statistics = slice.statistics.data() + first;
    if (sum_ == MxSum::kPublished) {
      return {run.blocks, statistics, 0, slice.ranks, published_stretch(format_, slice.ranks)};
    }
    return {run.blocks, statistics, headroom(slice.ranks), slice.ranks};
  }

  const MxFormat format_;
  const MxSum sum_;
  const int headroom_;  // or kHeadroomByRanks
  const MxKernels& kernels_;
};

CodecResult make_mx(const CodecSpec& spec, const MxFormat& format) {
  static constexpr std::array<std::string_view, 2> kOptions = {"headroom", "published"};
  NF_RETURN_IF_ERROR(spec.allow(false, kOptions));
  const Expected<double> headroom = spec.number("headroom", kHeadroomByRanks, 0, kMaxHeadroom);
  if (!headroom) return headroom.status();
  if (*headroom != std::floor(*headroom)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': headroom must be a whole number of bits", spec.name));
  }
  const Expected<bool> published = spec.flag("published");
  if (!published) return published.status();
  if (*published && *headroom != kHeadroomByRanks) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': headroom cannot be combined with published, which sets "
                              "its own scale; omit one of them",
                              spec.name));
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  const MxSum sum = *published ? MxSum::kPublished : MxSum::kOnce;
  return std::unique_ptr<Codec>(
      std::make_unique<Mx>(spec, format, sum, static_cast<int>(*headroom), *isa));
}

}  // namespace

CodecResult make_mxfp8(const CodecSpec& spec) { return make_mx(spec, kE4m3); }
CodecResult make_mxfp6(const CodecSpec& spec) { return make_mx(spec, kE3m2); }
CodecResult make_mxfp4(const CodecSpec& spec) { return make_mx(spec, kE2m1); }

}  // namespace nf
