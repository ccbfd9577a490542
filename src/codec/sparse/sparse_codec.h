// What topkc and omnireduce share. Blocks of consecutive values either travel whole, as BF16, or
// not at all; all ranks agree on which. A message is the values of the blocks that are sent, in
// order, and nothing else. Statistics are one number a block, its key: the greater, the sooner it
// is sent. A codec on top of it says how keys come about.
#pragma once

#include "base/float16.h"
#include "codec/block_codec.h"
#include "codec/wire_bytes.h"

namespace nf {

struct SparseFormat {
  std::size_t block = 0;      // values; a power of two, at least 16
  double budget = 0;          // bits an element, statistics included
  std::size_t key_bytes = 2;  // 1 or 2
  // Keys from here on say that the block is not finite on some rank: it is not sent, and everybody
  // decodes it to NaN. A block of key 0 is nothing but zeros and is not sent either.
  std::uint32_t poison = 0;
};

// A width is the bits of a value: 16 in a block that is sent, 0 in one that is left out.
class SparseCodec : public BlockCodec {
 public:
  CodecKind kind() const override { return CodecKind::kSparse; }
  const SparseFormat& format() const { return format_; }

  std::size_t statistics_size(std::size_t count) const override;
  std::size_t width_count(std::size_t count) const override;
  std::uint8_t most_width() const override;
  std::size_t granule_size(std::uint8_t width) const override;
  std::size_t payload_capacity(std::span<const std::size_t> counts) const override;
  std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const override;

 protected:
  SparseCodec(const CodecSpec& spec, SparseFormat format, Isa isa);

  std::uint32_t key_of(std::span<const std::byte> statistics, std::size_t block) const {
    const std::byte* at = statistics.data() + block * format_.key_bytes;
    return format_.key_bytes == 1 ? std::to_integer<std::uint32_t>(*at) : get_u16(at);
  }

  // Calls work(block, BF16 bits of its sum of squares) for every block.
  template <typename Work>
  void for_each_norm(ConstValues values, Work work) const {
    for_each_run(values, [&](Run run, const float* from) {
      for (std::size_t b = 0; b < run.blocks; ++b) {
        work(run.block + b, float_to_bfloat16(sum_of_squares(from + b * block(), block())));
      }
    });
  }

  Status do_choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                          std::size_t capacity) const override;
  bool is_width(std::uint8_t width) const override;
  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override;
  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override;
  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override;
  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, Origin total, std::byte* out) const override;

 private:
  enum class Fate { kSent, kLeftOut, kPoisoned };
  struct Stretch;

  // In the order of docs/wire_format.md. Precondition: `count` is a multiple of 16.
  static float sum_of_squares(const float* values, std::size_t count);

  Fate fate_of(const Slice& slice, std::size_t block) const;
  template <typename Work>
  void for_each_stretch(const Slice& slice, Run run, Work work) const;

  const SparseFormat format_;
};

// The format that a spelling of either codec asks for: a budget and the size of its blocks.
Expected<SparseFormat> sparse_format(const CodecSpec& spec, SparseFormat defaults);

}  // namespace nf
