// Turns gradient values into wire bytes and back.
//
// A message holds the sum of the gradients of one or more ranks: it starts as one rank's encode()
// and grows on its way, by values at a decode_add_encode() or by a whole message at a merge(). The
// bytes are the same on every CPU and GPU (docs/wire_format.md), so ranks of unlike hardware stay
// bit-identical.
//
// Some codecs first need figures that all ranks share. Then an exchange has two phases: every rank
// takes statistics() of its values, one place combines them, everybody derives the same widths from
// the combined bytes; and only then does payload move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neuron_fabric/codec_spec.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf {

// How the messages of two sets of ranks make the message of their union.
enum class CodecKind {
  kDense,         // values add as values
  kCounting,      // codes add exactly, and the sum needs more bits
  kMerging,       // two codes make one of the same width, at random and unbiased
  kRequantising,  // decode, add, encode again
  kSparse,        // values of agreed blocks add as values, the others are left out
};

std::string_view to_string(CodecKind kind);

// Whether messages of this kind come together by merge(), never by way of values.
constexpr bool merges_messages(CodecKind kind) {
  return kind == CodecKind::kCounting || kind == CodecKind::kMerging;
}

// How the contributions of all ranks come together: what a choice of widths must know of the sum
// to come, since every encode on the way adds its own error.
enum class SumShape {
  kChain,  // one rank after the other
  kTree,   // in pairs, and pairs of pairs
  kStar,   // all at one place
};

std::string_view to_string(SumShape shape);

struct SumOrder {
  std::uint32_t ranks = 1;
  SumShape shape = SumShape::kChain;
};

// Consecutive values of one parameter, and what all ranks know about them. Everything random is a
// function of (seed, step, parameter, element in the parameter, encoder), so neither buckets nor
// tiles nor threads change a bit.
struct Slice {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t parameter = 0;  // a hash of the parameter's qualified name
  std::uint64_t first = 0;      // where the slice starts in the parameter; a multiple of granule()
  std::size_t count = 0;        // values in the slice
  std::uint32_t ranks = 1;      // ranks that take part in the sum

  // Of the whole parameter, from element 0: the combined statistics and the chosen widths. Empty
  // for codecs that have none.
  std::span<const std::byte> statistics = {};
  std::span<const std::uint8_t> widths = {};
};

// Who made a message and how many ranks' gradients it sums.
struct Origin {
  std::uint32_t encoder = 0;
  std::uint32_t contributions = 1;
};

// One parameter's combined statistics, and the place for its widths.
struct WidthRequest {
  std::size_t count = 0;                  // values in the parameter
  std::span<const std::byte> statistics;  // combined
  std::span<std::uint8_t> widths;         // out: width_count(count) of them
};

class Codec;

// The codec of messages that sum at most so many contributions.
struct Hop {
  std::uint32_t most_contributions = 0;
  std::unique_ptr<Codec> codec;
};

// Immutable once made: any number of threads may use one codec at the same time.
class Codec {
 public:
  explicit Codec(CodecSpec spec) : spec_(std::move(spec)) {}
  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  const CodecSpec& spec() const { return spec_; }
  virtual CodecKind kind() const = 0;

  // Slices start at multiples of this many values within their parameter.
  virtual std::size_t granule() const = 0;

  // The most ranks that one sum can have.
  virtual std::uint32_t most_ranks() const;

  // First phase. Sizes are 0 where the codec has none.
  virtual std::size_t statistics_size(std::size_t count) const;
  virtual std::size_t width_count(std::size_t count) const;

  // The statistics of one rank's values of a whole parameter.
  Status statistics(ConstValues values, std::span<std::byte> out) const;

  // Combines the statistics that all ranks took of the same `count` values, in rank order.
  Status combine_statistics(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                            std::span<std::byte> combined) const;

  // Chooses the width of every super-group of all `parameters` together, so that their messages
  // fit payload_capacity(), or another capacity where one is given. The same combined statistics
  // give the same widths everywhere.
  Status choose_widths(std::span<const WidthRequest> parameters, SumOrder order) const;
  Status choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                       std::size_t capacity) const;

  // Where widths are chosen, one a granule: the greatest, and the most bytes that a granule of some
  // width adds to a message. Else 0.
  virtual std::uint8_t most_width() const;
  virtual std::size_t granule_size(std::uint8_t width) const;

  // Where messages gain from other widths as they grow: the codecs of messages, by contributions.
  // They take the same statistics. Empty where this one makes all messages.
  virtual std::vector<Hop> hops(SumOrder order) const;

  // Whether every rank should keep what its encodes lost and add it to its values the next time.
  virtual bool keeps_residual() const;

  // The most bytes that the messages of whole parameters of these sizes take together, from the
  // sizes alone; where messages grow with their contributions, those of one. Each further cut of a
  // parameter into slices may add 15 bytes of padding.
  virtual std::size_t payload_capacity(std::span<const std::size_t> counts) const;

  // The exact size of a message of `slice` that sums `contributions` ranks. Precondition: the slice
  // has its widths.
  virtual std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const = 0;

  // Writes the message that says: these values are the sum of origin.contributions ranks. Where
  // messages merge, that is one rank.
  Status encode(const Slice& slice, Origin origin, ConstValues values,
                std::span<std::byte> wire) const;

  // Each fails, and leaves `values` (or `out`) untouched, on sizes that do not fit and on bytes
  // that the codec's page refuses. No encode() writes such bytes.
  Status decode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                Values values) const;
  // values += what decode() would give as FP32, to the bit; 16-bit values round that sum once.
  Status decode_add(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                    Values values) const;
  // One inner hop: out = encode(values + decode(wire)), the message of `total`, unless the codec's
  // page says otherwise. The values sum total.contributions - origin.contributions ranks; where
  // messages merge, one rank, and the codes add instead.
  Status decode_add_encode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                           ConstValues values, Origin total, std::span<std::byte> out) const;
  // The message of all contributions of two others, made by `encoder`. Only where
  // merges_messages(kind()).
  Status merge(const Slice& slice, Origin first, std::span<const std::byte> first_wire,
               Origin second, std::span<const std::byte> second_wire, std::uint32_t encoder,
               std::span<std::byte> out) const;

 protected:
  // What a codec implements. Sizes have been checked.
  virtual void do_statistics(ConstValues values, std::span<std::byte> out) const;
  virtual Status do_combine_statistics(std::size_t count,
                                       std::span<const std::span<const std::byte>> by_rank,
                                       std::span<std::byte> combined) const;
  virtual Status do_choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                                  std::size_t capacity) const;
  virtual void do_encode(const Slice& slice, Origin origin, ConstValues values,
                         std::byte* wire) const = 0;
  // Whether choose_widths() could have chosen this width.
  virtual bool is_width(std::uint8_t width) const;
  // Refuses what the codec's page refuses; the others may trust the rest.
  virtual Status do_validate(const Slice& slice, Origin origin, const std::byte* wire) const;
  virtual void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                         Values values) const = 0;
  virtual void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                             Values values) const = 0;
  virtual void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                                    ConstValues values, Origin total, std::byte* out) const = 0;
  virtual void do_merge(const Slice& slice, Origin first, const std::byte* first_wire,
                        Origin second, const std::byte* second_wire, std::uint32_t encoder,
                        std::byte* out) const;

 private:
  Status check_ranks(std::size_t ranks) const;
  Status check_slice(const Slice& slice, std::uint32_t contributions, std::size_t count) const;
  Status check_message(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                       std::size_t count) const;

  const CodecSpec spec_;
};

// One line of the table of codecs.
struct CodecEntry {
  using Factory = Expected<std::unique_ptr<Codec>> (*)(const CodecSpec&);

  std::string_view name;
  std::string_view example;  // a complete spelling, for listings and loops over all codecs
  std::string_view summary;
  Factory make = nullptr;
};

// The codecs of this library, in the order of docs/codecs.
std::span<const CodecEntry> builtin_codecs();

// The codec that `text` spells (`waterfill:4`, `g_binary+majority`), from `entries`. Fails with
// kBadConfig and the nearest known name where there is none.
Expected<std::unique_ptr<Codec>> make_codec(std::string_view text,
                                            std::span<const CodecEntry> entries = builtin_codecs());

}  // namespace nf
