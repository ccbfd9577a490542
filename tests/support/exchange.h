// Both phases of an exchange, all ranks in one place. A call that fails is a test failure.
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

// Values of correlated ranks, as the ranks of one job are.
std::vector<TypedValues> ranks_of(Generator& random, std::size_t ranks, std::size_t count,
                                  DataType type = DataType::kFloat32);

// What all ranks know of one parameter once they have shared their statistics.
class Exchange {
 public:
  // The first phase over the values of every rank, alone or with others in one budget.
  Exchange(const Codec& codec, std::span<const TypedValues> by_rank);
  static std::vector<Exchange> of_several(const Codec& codec,
                                          std::span<const std::vector<TypedValues>> parameters);

  Slice whole() const { return part(0, count_); }
  Slice part(std::size_t first, std::size_t count) const;
  std::span<const std::byte> statistics() const { return statistics_; }
  std::span<const std::uint8_t> widths() const { return widths_; }

  std::uint64_t seed = 0x5eed;
  std::uint64_t step = 17;
  std::uint64_t parameter = 0xfeedc0ffee;

 private:
  Exchange() = default;
  void combine(const Codec& codec, std::span<const TypedValues> by_rank);

  std::size_t count_ = 0;
  std::uint32_t ranks_ = 0;
  std::vector<std::byte> statistics_;
  std::vector<std::uint8_t> widths_;
};

// Each checks that nothing is written beside the result, which lies `offset` bytes off alignment.
Message statistics_of(const Codec& codec, ConstValues values, std::size_t offset = 0);
Message encode(const Codec& codec, const Slice& slice, Origin origin, ConstValues values,
               std::size_t offset = 0);
std::vector<float> decode(const Codec& codec, const Slice& slice, Origin origin,
                          std::span<const std::byte> wire, DataType type = DataType::kFloat32,
                          std::size_t offset = 0);
// `values` + decoded, as values of their own type.
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

// Passes a message along the ranks in `order`, each adding its values; the encoder is the rank.
Message chain(const Codec& codec, const Slice& slice, std::span<const TypedValues> by_rank,
              std::span<const std::uint32_t> order);

}  // namespace nf::test
