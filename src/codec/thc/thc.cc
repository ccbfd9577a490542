// thc: values are rotated and quantised to 4 bits with a scale that all ranks share. The codes of
// the ranks are added as integers (docs/codecs/thc.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/float16.h"
#include "codec/block_codec.h"
#include "codec/codes.h"
#include "codec/make_codecs.h"
#include "codec/thc/thc_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::size_t kDefaultBlock = 1024;
constexpr std::size_t kMinBlock = 64;
constexpr double kDefaultClip = 2.4176;  // 1/64 of the values of a Gaussian are beyond it
constexpr double kMinClip = 1;
constexpr double kMaxClip = 8;
constexpr unsigned kMaxSaturation = 12;
// Exact sums of more ranks do not fit.
constexpr std::uint32_t kMaxRanks = ((1u << kMaxWidth) - 1) / kThcTop;

class Thc final : public BlockCodec {
 public:
  Thc(const CodecSpec& spec, std::size_t block, float clip, unsigned max_width, Isa isa)
      : BlockCodec(spec, block, isa),
        clip_(clip),
        max_width_(max_width),
        kernels_(isa == Isa::kScalar ? thc_reference() : thc_simd(isa)) {}

  CodecKind kind() const override { return CodecKind::kCounting; }
  std::uint32_t max_ranks() const override {
    return max_width_ < kMaxWidth ? Codec::max_ranks() : kMaxRanks;
  }

  std::size_t statistics_size(std::size_t count) const override { return 2 * blocks_of(count); }

  std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const override {
    return wire_packs(slice.count) * pack_bytes(codes(contributions).width());
  }

 protected:
  void do_statistics(ConstValues values, std::span<std::byte> out) const override {
    for_each_run(values, [&](Run run, const float* from) {
      kernels_.norms(from, run.blocks, block(), out.data() + 2 * run.block);
    });
  }

  // The largest norm of any rank. NaN marks non-finite values; its bits are larger than all norms.
  Status do_combine_statistics(std::size_t count,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override {
    for (std::size_t b = 0; b < blocks_of(count); ++b) {
      std::uint16_t norm = 0;
      for (const auto& rank : by_rank) norm = std::max(norm, get_u16(rank.data() + 2 * b));
      if (thc_is_poisoned(norm) && norm != kBfloat16Nan) {
        return {ErrorCode::kCorruptFrame, fmt::format("invalid norm {:#06x} of block {}", norm, b)};
      }
      put_u16(norm, combined.data() + 2 * b);
    }
    return {};
  }

  Status do_validate(const Slice& slice, Origin origin, const std::byte* wire) const override {
    const ThcCodes valid = codes(origin.contributions);
    if (std::has_single_bit(valid.top + 1)) return {};  // all codes of this width are valid
    const std::uint32_t found = kernels_.max_code(wire, wire_packs(slice.count), valid.width());
    if (found <= valid.top) return {};
    return {ErrorCode::kCorruptFrame,
            fmt::format("code {} exceeds the maximum of {} for {} contributions", found, valid.top,
                        origin.contributions)};
  }

  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override {
    for_each_run(values, [&](Run run, const float* from) {
      kernels_.encode(thc_blocks(slice, run), rounding(slice, origin.encoder), from,
                      at(run, origin, wire).bytes);
    });
  }

  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override {
    for_each_run(values, false, [&](Run run, float* to) {
      kernels_.decode(thc_blocks(slice, run), at(run, origin, wire), to);
    });
  }

  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override {
    for_each_run(values, true, [&](Run run, float* to) {
      kernels_.decode_add(thc_blocks(slice, run), at(run, origin, wire), to);
    });
  }

  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, Origin total, std::byte* out) const override {
    for_each_run(values, [&](Run run, const float* from) {
      kernels_.decode_add_encode(thc_blocks(slice, run), rounding(slice, total.encoder),
                                 at(run, origin, wire), from, at(run, total, out));
    });
  }

  void do_merge(const Slice& slice, Origin first, const std::byte* first_wire, Origin second,
                const std::byte* second_wire, std::uint32_t /*encoder*/,
                std::byte* out) const override {
    kernels_.merge(wire_packs(slice.count), {codes(first.contributions), first_wire},
                   {codes(second.contributions), second_wire},
                   {codes(first.contributions + second.contributions), out});
  }

 private:
  ThcCodes codes(std::uint32_t contributions) const { return thc_codes(contributions, max_width_); }

  static DrawStream rounding(const Slice& slice, std::uint32_t encoder) {
    return {slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kRounding};
  }

  // The size of the last block of a slice: the next power of two.
  static std::size_t padded(std::size_t held) { return std::max(kPack, std::bit_ceil(held)); }

  std::size_t wire_packs(std::size_t count) const {
    const std::size_t rest = count % block();
    return (count - rest + (rest == 0 ? 0 : padded(rest))) / kPack;
  }

  // The part of a message that contains a run.
  template <typename Byte>
  ThcWire<Byte> at(Run run, Origin origin, Byte* wire) const {
    const ThcCodes sum = codes(origin.contributions);
    return {sum, wire + run.block * block() / kPack * pack_bytes(sum.width())};
  }

  ThcBlocks thc_blocks(const Slice& slice, Run run) const {
    const std::size_t first = static_cast<std::size_t>(slice.first / block()) + run.block;
    const bool whole = run.values == run.blocks * block();
    return {.count = run.blocks,
            .size = whole ? block() : padded(run.values),
            .first = slice.first + run.block * block(),
            .norms = slice.statistics.data() + 2 * first,
            .clip = clip_,
            .rotation = {slice.seed, slice.step, slice.parameter, kSharedEncoder,
                         DrawPurpose::kRotation}};
  }

  const float clip_;
  const unsigned max_width_;
  const ThcKernels& kernels_;
};

}  // namespace

CodecResult make_thc(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 3> kOptions = {"block", "clip", "saturate"};
  NF_RETURN_IF_ERROR(spec.allow(false, kOptions));
  const Expected<double> block = spec.number("block", kDefaultBlock, kMinBlock, 8192);
  if (!block) return block.status();
  const Expected<double> clip = spec.number("clip", kDefaultClip, kMinClip, kMaxClip);
  if (!clip) return clip.status();
  const Expected<double> saturate = spec.number("saturate", kMaxWidth, kThcWidth, kMaxSaturation);
  if (!saturate) return saturate.status();
  const auto size = static_cast<std::size_t>(*block);
  if (*block != std::floor(*block) || !std::has_single_bit(size)) {
    return Status(ErrorCode::kBadConfig, "codec 'thc': block must be a power of two");
  }
  if (*saturate != std::floor(*saturate)) {
    return Status(ErrorCode::kBadConfig, "codec 'thc': saturate must be a whole number of bits");
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  return std::unique_ptr<Codec>(std::make_unique<Thc>(spec, size, static_cast<float>(*clip),
                                                      static_cast<unsigned>(*saturate), *isa));
}

}  // namespace nf
