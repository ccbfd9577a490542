// Base class of waterfill, dynamiq and rotated. A message consists of
//
//   [BF16 unit per super-group] [scales] [zeros to a multiple of 16 bytes] [codes].
//
// The super-groups have either a fixed width or widths that are chosen within a budget. A
// super-group of width 0 is not sent: it decodes to its share of the mean. The derived codec
// implements the loops over whole super-groups and the rule that chooses widths.
#pragma once

#include "codec/block_codec.h"
#include "codec/codes.h"
#include "codec/super_group.h"
#include "codec/super_group_kernels.h"
#include "codec/width_rule.h"

namespace nf {

struct SuperGroupFormat {
  // 16 values share a scale of 8 or 4 bits. Divides kPack; 0 if there are no scales.
  std::size_t values_per_scale_byte = kPack;
  // Whether a partial super-group has the packs of a whole one, otherwise only those with values.
  bool pads_packs = false;
  unsigned min_width = 0;  // may be 0: the super-group is not sent
  unsigned max_width = 0;
  double budget = 0;           // bits per element, statistics included; 0 if the width is fixed
  unsigned width = 0;          // the fixed width of all super-groups; 0 if there is a budget
  bool has_statistics = true;  // may be false if the width is fixed: means count as 0
};

class SuperGroupCodec : public BlockCodec {
 public:
  CodecKind kind() const override { return CodecKind::kRequantising; }

  // A codec supports it by allowing the option.
  bool uses_rms_history() const override { return spec().options.contains("rms"); }
  std::size_t statistics_size(std::size_t count) const override;
  std::size_t width_count(std::size_t count) const override;
  std::uint8_t max_width() const override;
  std::size_t granule_size(std::uint8_t width) const override;
  std::size_t payload_capacity(std::span<const std::size_t> counts) const override;
  std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const override;

  const SuperGroupFormat& format() const { return format_; }
  // The rule that chooses widths within the budget. If min_width is 0, the costs of a super-group
  // include its unit and scales.
  virtual WidthRule width_rule(SumOrder order) const = 0;

 protected:
  using In = SuperGroupWire<const std::byte>;
  using Out = SuperGroupWire<std::byte>;

  SuperGroupCodec(const CodecSpec& spec, SuperGroupFormat format, Isa isa);

  // Process whole super-groups of the slice. `origin` is the origin of the message that encode
  // writes or that the others read; `total` is the origin of the outgoing message.
  virtual void encode_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                             const float* values, Out wire) const = 0;
  virtual void decode_groups(const Slice& slice, Origin origin, const SuperGroups& groups, In wire,
                             float* values) const = 0;
  virtual void decode_add_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                                 In wire, float* values) const = 0;
  virtual void decode_add_encode_groups(const Slice& slice, Origin origin,
                                        const SuperGroups& groups, In wire, const float* values,
                                        Origin total, Out out) const = 0;
  void do_statistics(ConstValues values, std::span<std::byte> out) const override;
  Status do_combine_statistics(std::size_t count,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override;
  Status do_choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                          std::size_t capacity) const override;
  Status do_validate(const Slice& slice, Origin origin, const std::byte* wire) const override;
  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override;
  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override;
  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override;
  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, Origin total, std::byte* out) const override;

 private:
  template <typename Byte>
  class Cursor;

  // A message of one whole super-group, for the last super-group of a slice if it is partial.
  struct WholeGroup {
    std::byte unit[2] = {};
    std::byte scales[kSuperGroup] = {};
    std::byte codes[kSuperGroup / kPack * pack_bytes(kMaxWidth)] = {};
  };

  // The number of bytes of the scales.
  std::size_t scales_of(std::size_t count) const {
    if (format_.values_per_scale_byte == 0) return 0;
    return (count + format_.values_per_scale_byte - 1) / format_.values_per_scale_byte;
  }
  // The number of packs of codes.
  std::size_t coded_packs(std::size_t count) const {
    return format_.pads_packs ? super_groups_of(count) * (kSuperGroup / kPack) : packs_of(count);
  }
  // The sizes of a message's arrays.
  struct Layout {
    std::size_t units = 0;
    std::size_t scales = 0;
    std::size_t codes = 0;

    std::size_t codes_at() const { return (units + scales + 15) / 16 * 16; }
    std::size_t size() const { return codes_at() + codes; }
  };
  Layout layout(std::size_t count, unsigned width) const;
  Layout layout(const Slice& slice) const;
  void clear_padding(const Slice& slice, std::byte* wire) const;
  SuperGroups super_groups(const Slice& slice, Run run) const;
  void encode_run(const Slice& slice, Origin origin, Run run, const float* from, Out at) const;
  template <typename Work>
  void with_whole_groups(const Slice& slice, Run run, In at, Work work) const;

  const SuperGroupFormat format_;
  const SuperGroupKernels& statistics_;
};

}  // namespace nf
