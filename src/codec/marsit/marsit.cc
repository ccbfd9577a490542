// marsit: signs that merge into signs (docs/codecs/marsit.md). A message of any number of
// contributions has the size of one g_binary contribution. If two bits differ, one is chosen at
// random, so that the expected sign is the mean of the signs of all ranks.
#include <algorithm>
#include <array>
#include <utility>

#include "codec/codes.h"
#include "codec/make_codecs.h"
#include "codec/marsit/marsit_kernels.h"
#include "codec/sign/sign_format.h"
#include "codec/sign/sign_scales.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

// Every rank must have a share of the 65536 values of a draw.
constexpr std::uint32_t kMaxRanks = 65535;

constexpr std::size_t size_of_message(std::size_t count) {
  return sign_codes_at(count) + packs_of(count) * pack_bytes(1);
}

// The number of draws, out of 2^16, that choose the first message's bit: its share of the
// contributions.
std::uint32_t threshold_of(Origin first, Origin second) {
  const std::uint64_t total = std::uint64_t{first.contributions} + second.contributions;
  return static_cast<std::uint32_t>(((std::uint64_t{first.contributions} << 16) + total / 2) /
                                    total);
}

class Marsit final : public Codec {
 public:
  Marsit(const CodecSpec& spec, std::unique_ptr<Codec> signs, bool feeds_back, Isa isa)
      : Codec(spec),
        signs_(std::move(signs)),
        feeds_back_(feeds_back),
        kernels_(isa == Isa::kScalar ? marsit_reference() : marsit_simd(isa)) {}

  CodecKind kind() const override { return CodecKind::kMerging; }
  std::size_t granule() const override { return kSignBlock; }
  std::uint32_t max_ranks() const override { return kMaxRanks; }
  bool keeps_residual() const override { return feeds_back_; }

  std::size_t encoded_size(const Slice& slice, std::uint32_t /*contributions*/) const override {
    return size_of_message(slice.count);
  }

 protected:
  Status do_validate(const Slice& slice, Origin /*origin*/, const std::byte* wire) const override {
    NF_RETURN_IF_ERROR(validate_sign_scales(slice.count, wire));
    const std::size_t held = slice.count % kPack;
    if (held != 0) {
      std::uint32_t pack[kPack];
      unpack_codes(wire + size_of_message(slice.count) - pack_bytes(1), 1, pack);
      if (std::any_of(pack + held, pack + kPack, [](std::uint32_t bit) { return bit != 0; })) {
        return {ErrorCode::kCorruptFrame, "a bit after the last value is not zero"};
      }
    }
    return {};
  }

  // These calls of g_binary cannot fail: slices and messages have been checked.
  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override {
    (void)signs_->encode(slice, origin, values, {wire, size_of_message(slice.count)});
  }

  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override {
    (void)signs_->decode(slice, {origin.encoder, 1}, {wire, size_of_message(slice.count)}, values);
  }

  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override {
    (void)signs_->decode_add(slice, {origin.encoder, 1}, {wire, size_of_message(slice.count)},
                             values);
  }

  // One block at a time, so that the rank's own bits stay in the cache.
  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, Origin total, std::byte* out) const override {
    const Origin own{.encoder = total.encoder, .contributions = 1};
    clear_sign_gap(slice.count, out);
    for (std::size_t first = 0; first < slice.count; first += kSignBlock) {
      Slice block = slice;
      block.first += first;
      block.count = std::min(kSignBlock, slice.count - first);
      const auto* from = static_cast<const std::byte*>(values.data) + first * size_of(values.type);
      std::array<std::byte, size_of_message(kSignBlock)> message;
      do_encode(block, own, ConstValues(from, block.count, values.type), message.data());
      merge_blocks(block, origin, at(slice, first, wire), own,
                   {message.data(), message.data() + sign_codes_at(block.count)}, total.encoder,
                   at(slice, first, out));
    }
  }

  void do_merge(const Slice& slice, Origin first, const std::byte* first_wire, Origin second,
                const std::byte* second_wire, std::uint32_t encoder,
                std::byte* out) const override {
    clear_sign_gap(slice.count, out);
    merge_blocks(slice, first, at(slice, 0, first_wire), second, at(slice, 0, second_wire), encoder,
                 at(slice, 0, out));
  }

 private:
  // The arrays of a message, from some block on.
  template <typename Byte>
  struct Wire {
    Byte* scales = nullptr;
    Byte* bits = nullptr;
  };

  // Precondition: `value` is a multiple of kSignBlock.
  template <typename Byte>
  static Wire<Byte> at(const Slice& slice, std::size_t value, Byte* wire) {
    return {wire + sign_scale_bytes(value),
            wire + sign_codes_at(slice.count) + packs_of(value) * pack_bytes(1)};
  }

  void merge_blocks(const Slice& slice, Origin first, Wire<const std::byte> first_wire,
                    Origin second, Wire<const std::byte> second_wire, std::uint32_t encoder,
                    Wire<std::byte> out) const {
    for (std::size_t b = 0; b < sign_blocks_of(slice.count); ++b) {
      const float sum =
          get_float(first_wire.scales + 4 * b) + get_float(second_wire.scales + 4 * b);
      put_float(poison_unless_finite(sum), out.scales + 4 * b);
    }
    MarsitChoice choice{
        .draws = {slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kMerge},
        .block = slice.first / kDrawBlock,
        .threshold = threshold_of(first, second)};
    // A rank may merge several times per step. The number of contributions makes the draws differ.
    choice.draws.key = mix64(choice.draws.key ^ (first.contributions + second.contributions));
    kernels_.merge(choice, first_wire.bits, second_wire.bits, packs_of(slice.count), out.bits);
  }

  const std::unique_ptr<Codec> signs_;  // g_binary
  const bool feeds_back_;
  const MarsitKernels& kernels_;
};

}  // namespace

CodecResult make_marsit(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 1> kOptions = {"ef"};
  NF_RETURN_IF_ERROR(spec.allow(false, kOptions));
  const Expected<bool> feeds_back = spec.flag("ef");
  if (!feeds_back) return feeds_back.status();
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  CodecResult signs = make_g_binary({"g_binary", {}, {}});
  if (!signs) return signs.status();
  return std::unique_ptr<Codec>(
      std::make_unique<Marsit>(spec, std::move(*signs), *feeds_back, *isa));
}

}  // namespace nf
