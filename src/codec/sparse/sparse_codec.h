// Base class of topkc and omnireduce. A block of consecutive values is either sent as BF16 or left
// out, the same on all ranks. A message consists of the values of the sent blocks, in order. The
// statistics are one key per block: blocks with larger keys are sent first. The derived codec
// computes the keys.
#pragma once

#include "base/float16.h"
#include "codec/block_codec.h"
#include "codec/wire_bytes.h"

namespace nf {

struct SparseFormat {
  std::size_t block = 0;      // values per block; a power of two, at least 16
  double budget = 0;          // bits per element, statistics included
  std::size_t key_bytes = 2;  // 1 or 2
  // A block with a key of at least this has non-finite values on some rank: it is not sent and
  // decodes to NaN. A block with key 0 contains only zeros and is not sent.
  std::uint32_t poison = 0;
};

// The width of a block is 16 if it is sent and 0 if it is left out.
class SparseCodec : public BlockCodec {
 public:
  CodecKind kind() const override { return CodecKind::kSparse; }
  const SparseFormat& format() const { return format_; }

  std::size_t statistics_size(std::size_t count) const override;
  std::size_t width_count(std::size_t count) const override;
  std::uint8_t max_width() const override;
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
  enum class BlockState { kSent, kLeftOut, kPoisoned };
  struct Stretch;

  // In the order of docs/wire_format.md. Precondition: `count` is a multiple of 16.
  static float sum_of_squares(const float* values, std::size_t count);

  BlockState state_of(const Slice& slice, std::size_t block) const;
  template <typename Work>
  void for_each_stretch(const Slice& slice, Run run, Work work) const;

  const SparseFormat format_;
};

// The format of a codec spec: its budget and block size.
Expected<SparseFormat> sparse_format(const CodecSpec& spec, SparseFormat defaults);

}  // namespace nf
