// g_binary and g_ternary: signs that add by counting (docs/codecs/g_binary.md, g_ternary.md).
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "codec/block_codec.h"
#include "codec/make_codecs.h"
#include "codec/sign/sign_kernels.h"
#include "codec/sign/sign_scales.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

struct Settings {
  std::uint32_t max_digit = 1;  // g_binary 1, g_ternary 2
  float tau = 0;
  bool majority = false;
  bool feedback = false;
};

const SignKernels& sign_kernels(std::uint32_t max_digit, Isa isa) {
  if (isa == Isa::kScalar) return max_digit == 1 ? g_binary_reference() : g_ternary_reference();
  return max_digit == 1 ? g_binary_simd(isa) : g_ternary_simd(isa);
}

class SignCodec final : public BlockCodec {
 public:
  SignCodec(const CodecSpec& spec, Settings settings, Isa isa)
      : BlockCodec(spec, kSignBlock, isa),
        settings_(settings),
        kernels_(sign_kernels(settings.max_digit, isa)),
        counts_(isa == Isa::kScalar ? count_reference() : count_simd(isa)) {}

  CodecKind kind() const override { return CodecKind::kCounting; }

  std::uint32_t max_ranks() const override { return ((1u << kMaxWidth) - 1) / settings_.max_digit; }

  bool keeps_residual() const override { return settings_.feedback; }

  std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const override {
    return sign_codes_at(slice.count) + format(slice, contributions).code_bytes(slice.count);
  }

 protected:
  Status do_validate(const Slice& slice, Origin origin, const std::byte* wire) const override {
    NF_RETURN_IF_ERROR(validate_sign_scales(slice.count, wire));
    const SignFormat in = format(slice, origin.contributions);
    const std::byte* codes = wire + sign_codes_at(slice.count);
    if (!counts_.valid(in, codes, slice.count) || !is_padded(in, slice.count, codes)) {
      return {ErrorCode::kCorruptFrame,
              fmt::format("invalid codes in a sum of {} contributions", origin.contributions)};
    }
    return {};
  }

  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override {
    clear_sign_gap(slice.count, wire);
    const SignFormat out = format(slice, origin.contributions);
    for_each_run(values, [&](Run run, const float* from) {
      const SignBlocks blocks = blocks_of_run(slice, run, origin.encoder);
      with_whole_blocks(out, slice, run, wire,
                        [&](SignOut at) { kernels_.encode(blocks, from, at); });
    });
  }

  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override {
    const SignFormat in = format(slice, origin.contributions);
    for_each_run(values, false, [&](Run run, float* to) {
      const SignBlocks blocks = blocks_of_run(slice, run, origin.encoder);
      with_whole_blocks(in, slice, run, wire, [&](SignIn at) { counts_.decode(blocks, at, to); });
    });
  }

  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override {
    const SignFormat in = format(slice, origin.contributions);
    for_each_run(values, true, [&](Run run, float* to) {
      const SignBlocks blocks = blocks_of_run(slice, run, origin.encoder);
      with_whole_blocks(in, slice, run, wire,
                        [&](SignIn at) { counts_.decode_add(blocks, at, to); });
    });
  }

  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, Origin total, std::byte* out) const override {
    clear_sign_gap(slice.count, out);
    const SignFormat in = format(slice, origin.contributions);
    const SignFormat sum = format(slice, total.contributions);
    for_each_run(values, [&](Run run, const float* from) {
      const SignBlocks blocks = blocks_of_run(slice, run, total.encoder);
      with_whole_blocks(in, slice, run, wire, [&](SignIn at) {
        with_whole_blocks(sum, slice, run, out,
                          [&](SignOut to) { kernels_.decode_add_encode(blocks, at, from, to); });
      });
    });
  }

  void do_merge(const Slice& slice, Origin first, const std::byte* first_wire, Origin second,
                const std::byte* second_wire, std::uint32_t encoder,
                std::byte* out) const override {
    clear_sign_gap(slice.count, out);
    const SignFormat a = format(slice, first.contributions);
    const SignFormat b = format(slice, second.contributions);
    const SignFormat sum = format(slice, first.contributions + second.contributions);
    for_each_run_of(slice.count, [&](Run run) {
      const SignBlocks blocks = blocks_of_run(slice, run, encoder);
      with_whole_blocks(a, slice, run, first_wire, [&](SignIn at) {
        with_whole_blocks(b, slice, run, second_wire, [&](SignIn other) {
          with_whole_blocks(sum, slice, run, out,
                            [&](SignOut to) { counts_.merge(blocks, at, other, to); });
        });
      });
    });
  }

 private:
  SignFormat format(const Slice& slice, std::uint32_t contributions) const {
    return {.max_digit = settings_.max_digit,
            .contributions = contributions,
            .voted = settings_.majority && contributions == slice.ranks};
  }

  // Calls work(run) for all whole blocks at once, then for a last partial block.
  template <typename Work>
  static void for_each_run_of(std::size_t count, Work work) {
    const std::size_t whole = count / kSignBlock;
    if (whole > 0) work(Run{0, whole, whole * kSignBlock});
    if (count % kSignBlock != 0) work(Run{whole, 1, count % kSignBlock});
  }

  SignBlocks blocks_of_run(const Slice& slice, Run run, std::uint32_t encoder) const {
    return {.count = run.blocks,
            .first = slice.first / kSignBlock + run.block,
            .held = run.values / run.blocks,
            .zeros = {slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kSign},
            .ties = {slice.seed, slice.step, slice.parameter, kSharedEncoder, DrawPurpose::kSign},
            .tau = settings_.tau,
            .majority = settings_.majority};
  }

  // Whether the padding after the last element is valid: closed gates for trits, otherwise zero.
  static bool is_padded(const SignFormat& in, std::size_t count, const std::byte* codes) {
    const std::size_t unit = in.has_trits() ? kTritUnit : kPack;
    const std::size_t held = count % unit;
    if (held == 0) return true;
    if (!in.has_trits()) {
      std::uint32_t pack[kPack];
      unpack_codes(codes + count / kPack * pack_bytes(in.width()), in.width(), pack);
      return std::all_of(pack + held, pack + kPack, [](std::uint32_t c) { return c == 0; });
    }
    const std::byte* last = codes + count / kTritUnit * kTritUnitBytes;
    for (std::size_t e = held; e < kTritUnit; ++e) {
      const auto byte = std::to_integer<std::uint32_t>(last[e % kTritUnitBytes]);
      if (byte / kPowersOf3[e / kTritUnitBytes] % 3 != kClosedTrit) return false;
    }
    return true;
  }

  // Zeroes the codes after the last value. Trits need no change: the kernels pad values with zeros,
  // whose digits are closed gates.
  static void clear_padding(const SignFormat& in, std::size_t held, std::byte* codes) {
    if (in.has_trits() || held % kPack == 0) return;
    std::byte* last = codes + held / kPack * pack_bytes(in.width());
    std::uint32_t pack[kPack];
    unpack_codes(last, in.width(), pack);
    std::fill(pack + held % kPack, pack + kPack, 0u);
    pack_codes(pack, in.width(), last);
  }

  // Calls work(position of the run in the message). A partial block is processed in a copy of the
  // size of a whole block.
  template <typename Byte, typename Work>
  void with_whole_blocks(const SignFormat& in, const Slice& slice, Run run, Byte* wire,
                         Work work) const {
    Byte* scales = wire + 4 * run.block;
    Byte* codes = wire + sign_codes_at(slice.count) + in.code_bytes(run.block * kSignBlock);
    if (run.values == run.blocks * kSignBlock) {
      work(SignWire<Byte>{in, scales, codes});
      return;
    }
    const std::size_t size = in.code_bytes(run.values);
    std::array<std::byte, kSignPacks * pack_bytes(kMaxWidth)> whole;
    if constexpr (std::is_const_v<Byte>) {
      std::memcpy(whole.data(), codes, size);
      std::memset(whole.data() + size, 0, in.code_bytes(kSignBlock) - size);
      work(SignIn{in, scales, whole.data()});
    } else {
      work(SignOut{in, scales, whole.data()});
      clear_padding(in, run.values, whole.data());
      std::memcpy(codes, whole.data(), size);
    }
  }

  const Settings settings_;
  const SignKernels& kernels_;
  const CountKernels& counts_;
};

CodecResult make_sign_codec(const CodecSpec& spec, Settings settings) {
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  return std::unique_ptr<Codec>(std::make_unique<SignCodec>(spec, settings, *isa));
}

}  // namespace

CodecResult make_g_binary(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 2> kOptions = {"ef", "majority"};
  NF_RETURN_IF_ERROR(spec.allow(false, kOptions));
  const Expected<bool> majority = spec.flag("majority");
  if (!majority) return majority.status();
  const Expected<bool> feedback = spec.flag("ef");
  if (!feedback) return feedback.status();
  return make_sign_codec(spec, {.max_digit = 1, .majority = *majority, .feedback = *feedback});
}

CodecResult make_g_ternary(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 2> kOptions = {"ef", "tau"};
  NF_RETURN_IF_ERROR(spec.allow(false, kOptions));
  const Expected<double> tau = spec.number("tau", 0.7, 0, 10);
  if (!tau) return tau.status();
  const Expected<bool> feedback = spec.flag("ef");
  if (!feedback) return feedback.status();
  return make_sign_codec(spec,
                         {.max_digit = 2, .tau = static_cast<float>(*tau), .feedback = *feedback});
}

}  // namespace nf
