// Turns gradient values into wire bytes and back.
//
// A message holds the sum of the gradients of one or more ranks. It starts as one rank's encode().
// Each hop adds either values (decode_add_encode()) or another message (merge()). The bytes are the
// same on every CPU and GPU (docs/wire_format.md), so ranks on different hardware stay
// bit-identical.
//
// Some codecs need statistics that all ranks share. Their all-reduce has a statistics stage before
// any payload is sent: every rank computes statistics() of its values, one rank combines them, and
// all ranks derive the same widths from the combined bytes.
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

// How two messages are combined into one.
enum class CodecKind {
  kDense,         // values are added
  kCounting,      // codes are added exactly; the sum needs more bits
  kMerging,       // one of two codes is chosen at random, without bias; the width stays the same
  kRequantising,  // decode, add, encode again
  kSparse,        // values of selected blocks are added, other blocks are not sent
};

std::string_view to_string(CodecKind kind);

// Whether messages of this kind are combined by merge() instead of by adding values.
constexpr bool merges_messages(CodecKind kind) {
  return kind == CodecKind::kCounting || kind == CodecKind::kMerging;
}

// The order in which the contributions of all ranks are added. The choice of widths depends on it,
// because every encode adds its own error.
enum class SumShape {
  kChain,  // one rank after the other
  kTree,   // in pairs, then pairs of pairs
  kStar,   // all on one rank
};

std::string_view to_string(SumShape shape);

struct SumOrder {
  std::uint32_t ranks = 1;
  SumShape shape = SumShape::kChain;
  // Whether the finished sum is encoded and sent to all ranks. Otherwise its owner keeps it in
  // FP32.
  bool gathers = true;
};

// Consecutive values of one parameter and the state that all ranks share about them. All random
// draws are functions of (seed, step, parameter, element in the parameter, encoder), so buckets,
// tiles and threads do not change a bit of the result.
struct Slice {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t parameter = 0;  // a hash of the parameter's qualified name
  std::uint64_t first = 0;      // first element in the parameter; a multiple of granule()
  std::size_t count = 0;        // values in the slice
  std::uint32_t ranks = 1;      // ranks in the sum

  // The combined statistics and the chosen widths of the whole parameter, from element 0. Empty for
  // codecs without statistics or widths.
  std::span<const std::byte> statistics = {};
  std::span<const std::uint8_t> widths = {};
};

// The rank that encoded a message, and the number of ranks whose gradients it sums.
struct Origin {
  std::uint32_t encoder = 0;
  std::uint32_t contributions = 1;
};

// The input and output of choose_widths() for one parameter.
struct WidthRequest {
  std::size_t count = 0;                  // values in the parameter
  std::span<const std::byte> statistics;  // combined
  std::span<std::uint8_t> widths;         // out: width_count(count) of them
};

class Codec;

// The codec for messages of at most `max_contributions` contributions.
struct Hop {
  std::uint32_t max_contributions = 0;
  std::unique_ptr<Codec> codec;
};

// Immutable, therefore thread-safe.
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

  // The maximum number of ranks in one sum.
  virtual std::uint32_t max_ranks() const;

  // Whether a sum that was encoded `encodes` times in a row is unbiased: its error, averaged over
  // the steps, is zero for any fixed values. false by default.
  virtual bool is_unbiased(std::uint32_t encodes) const;

  // The statistics stage. The sizes are 0 if the codec has no statistics or no widths.
  virtual std::size_t statistics_size(std::size_t count) const;
  virtual std::size_t width_count(std::size_t count) const;

  // Computes the statistics of one rank's values of a whole parameter.
  Status statistics(ConstValues values, std::span<std::byte> out) const;

  // Combines the statistics of all ranks for the same `count` values, in rank order.
  Status combine_statistics(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                            std::span<std::byte> combined) const;

  // Chooses the widths of all granules of all `parameters` together, so that their messages fit
  // `capacity` bytes (payload_capacity() by default). The same combined statistics give the same
  // widths on every rank.
  Status choose_widths(std::span<const WidthRequest> parameters, SumOrder order) const;
  Status choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                       std::size_t capacity) const;

  // If each granule has a width of its own: the maximum width, and the maximum number of bytes that
  // a granule of a width adds to a message. Otherwise 0.
  virtual std::uint8_t max_width() const;
  virtual std::size_t granule_size(std::uint8_t width) const;

  // The codecs of messages by contributions, for codecs that use other widths as a sum grows. They
  // use the same statistics. Empty if this codec encodes all messages.
  virtual std::vector<Hop> hops(SumOrder order) const;

  // Whether ranks should use error feedback: keep the error of their encodes as a residual and add
  // it to the values of the next step.
  virtual bool keeps_residual() const;
  // Whether values are encoded in units of the root mean square of the sums of earlier steps. The
  // collective scales the values; the codec encodes them like any others.
  virtual bool uses_rms_history() const;

  // The maximum total size in bytes of the messages of whole parameters of these sizes. If messages
  // grow with their contributions, the size for one contribution. Every further slice of a
  // parameter may add 15 bytes of padding.
  virtual std::size_t payload_capacity(std::span<const std::size_t> counts) const;

  // The exact size of a message of `slice` with this many contributions. Precondition: the slice
  // has its widths.
  virtual std::size_t encoded_size(const Slice& slice, std::uint32_t contributions) const = 0;

  // Encodes values that are the sum of origin.contributions ranks: of one rank if messages merge.
  Status encode(const Slice& slice, Origin origin, ConstValues values,
                std::span<std::byte> wire) const;

  // The functions below fail, and leave `values` or `out` untouched, if sizes do not match or if
  // the bytes are invalid according to the codec's page. No encode() writes invalid bytes.
  Status decode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                Values values) const;
  // Adds the FP32 result of decode() to `values`. 16-bit values are rounded once, after the sum.
  Status decode_add(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                    Values values) const;
  // One hop: out = encode(values + decode(wire)), unless the codec's page defines it otherwise. The
  // values are the sum of total.contributions - origin.contributions ranks. If messages merge, the
  // values are those of one rank, and the codes are combined instead.
  Status decode_add_encode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                           ConstValues values, Origin total, std::span<std::byte> out) const;
  // Combines two messages on rank `encoder`. Fails unless merges_messages(kind()).
  Status merge(const Slice& slice, Origin first, std::span<const std::byte> first_wire,
               Origin second, std::span<const std::byte> second_wire, std::uint32_t encoder,
               std::span<std::byte> out) const;

 protected:
  // The functions that a codec implements. The public functions have checked all sizes.
  virtual void do_statistics(ConstValues values, std::span<std::byte> out) const;
  virtual Status do_combine_statistics(std::size_t count,
                                       std::span<const std::span<const std::byte>> by_rank,
                                       std::span<std::byte> combined) const;
  virtual Status do_choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                                  std::size_t capacity) const;
  virtual void do_encode(const Slice& slice, Origin origin, ConstValues values,
                         std::byte* wire) const = 0;
  // Whether choose_widths() can choose this width.
  virtual bool is_width(std::uint8_t width) const;
  // Rejects invalid messages; the functions below see only valid ones.
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

// One entry of a codec table.
struct CodecEntry {
  using Factory = Expected<std::unique_ptr<Codec>> (*)(const CodecSpec&);

  std::string_view name;
  std::string_view example;  // a complete codec spec, for listings, tests and benchmarks
  std::string_view summary;
  Factory make = nullptr;
};

// The codecs of this library, in the order of docs/codecs.
std::span<const CodecEntry> builtin_codecs();

// Makes the codec of a codec spec such as `waterfill:4` or `g_binary+majority` from `entries`.
// Fails with kBadConfig, and suggests the nearest name, if the name is unknown.
Expected<std::unique_ptr<Codec>> make_codec(std::string_view text,
                                            std::span<const CodecEntry> entries = builtin_codecs());

}  // namespace nf
