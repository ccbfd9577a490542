// topkc: sends the blocks with the largest norm over all ranks (docs/codecs/topkc.md). The key of a
// block is the BF16 bits of its sum of squares, which have the same order as the numbers.
#include "codec/make_codecs.h"
#include "codec/sparse/sparse_codec.h"

namespace nf {
namespace {

constexpr std::size_t kDefaultBlock = 64;
// Infinity, NaN and, since a sum of squares has no sign, all bits with a sign.
constexpr std::uint32_t kNonFinite = 0x7f80;

class Topkc final : public SparseCodec {
 public:
  Topkc(const CodecSpec& spec, SparseFormat format, Isa isa) : SparseCodec(spec, format, isa) {}

 protected:
  void do_statistics(ConstValues values, std::span<std::byte> out) const override {
    for_each_norm(values, [&](std::size_t b, std::uint16_t norm) {
      put_u16(norm, out.data() + sizeof norm * b);
    });
  }

  Status do_combine_statistics(std::size_t count,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override {
    for (std::size_t at = 0; at < statistics_size(count); at += sizeof(std::uint16_t)) {
      float sum = 0;
      for (const auto& rank : by_rank) sum += bfloat16_to_float(get_u16(rank.data() + at));
      put_u16(float_to_bfloat16(sum), combined.data() + at);
    }
    return {};
  }
};

}  // namespace

CodecResult make_topkc(const CodecSpec& spec) {
  const Expected<SparseFormat> format =
      sparse_format(spec, {.block = kDefaultBlock, .key_bytes = 2, .poison = kNonFinite});
  if (!format) return format.status();
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  return std::unique_ptr<Codec>(std::make_unique<Topkc>(spec, *format, *isa));
}

}  // namespace nf
