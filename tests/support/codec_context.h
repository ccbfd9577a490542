// Codec calls of all ranks in one thread: statistics, widths, encode, hop, decode. A call that
// fails is a test failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/codec.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {

using Message = std::vector<std::byte>;

// Correlated values of several ranks, like the gradients of one job.
std::vector<TypedValues> ranks_of(Generator& random, std::size_t ranks, std::size_t count,
                                  DataType type = DataType::kFloat32);

// The shared state of all ranks for one parameter: combined statistics and widths.
class CodecContext {
 public:
  // Combines the statistics of every rank and chooses the widths, for one parameter or for several
  // that share a budget.
  CodecContext(const Codec& codec, std::span<const TypedValues> by_rank);
  static std::vector<CodecContext> for_parameters(
      const Codec& codec, std::span<const std::vector<TypedValues>> parameters);

  Slice whole() const { return part(0, count_); }
  Slice part(std::size_t first, std::size_t count) const;
  std::span<const std::byte> statistics() const { return statistics_; }
  std::span<const std::uint8_t> widths() const { return widths_; }

  std::uint64_t seed = 0x5eed;
  std::uint64_t step = 17;
  std::uint64_t parameter = 0xfeedc0ffee;

 private:
  CodecContext() = default;
  void combine(const Codec& codec, std::span<const TypedValues> by_rank);

  std::size_t count_ = 0;
  std::uint32_t ranks_ = 0;
  std::vector<std::byte> statistics_;
  std::vector<std::uint8_t> widths_;
};

// Each function checks that nothing outside the result is written. The result starts `offset` bytes
// after an aligned address.
Message statistics_of(const Codec& codec, ConstValues values, std::size_t offset = 0);
Message encode(const Codec& codec, const Slice& slice, Origin origin, ConstValues values,
               std::size_t offset = 0);
std::vector<float> decode(const Codec& codec, const Slice& slice, Origin origin,
                          std::span<const std::byte> wire, DataType type = DataType::kFloat32,
                          std::size_t offset = 0);
// `values` plus the decoded message, in the type of `values`.
std::vector<float> decode_add(const Codec& codec, const Slice& slice, Origin origin,
                              std::span<const std::byte> wire, const TypedValues& values,
                              std::size_t offset = 0);
Message decode_add_encode(const Codec& codec, const Slice& slice, Origin origin,
                          std::span<const std::byte> wire, ConstValues values,
                          std::uint32_t encoder, std::size_t offset = 0);
Message merge(const Codec& codec, const Slice& slice, Origin first,
              std::span<const std::byte> first_wire, Origin second,
              std::span<const std::byte> second_wire, std::uint32_t encoder,
              std::size_t offset = 0);

// Passes a message along the ranks in `order`; each rank adds its values and encodes.
Message chain(const Codec& codec, const Slice& slice, std::span<const TypedValues> by_rank,
              std::span<const std::uint32_t> order);

}  // namespace nf::test
