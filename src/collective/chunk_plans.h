// The plans of all chunks of a sum. An all-reduce cuts its values into equal chunks, which share
// one plan. The chunks of a reduce-scatter are given by the caller. Each has a plan of its own,
// with its own budget, so that its message sizes follow from its own sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/sum_plan.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The values of a sum.
struct SumDomain {
  std::span<const Piece> pieces = {};        // to be cut into equal chunks; unused with borders
  std::span<const std::size_t> counts = {};  // the sizes of all parameters
  // If the chunks are given: the first parameter of each, and one more at the end.
  std::span<const std::size_t> borders = {};
};

class ChunkPlans {
 public:
  // Borrows the codec.
  ChunkPlans(const Codec& codec, SumOrder order);

  // As in SumPlan, for all chunks. Precondition: borders, if any, are those of `chunks` chunks.
  void cut(const SumDomain& domain, std::uint32_t chunks, std::size_t tile_bytes);
  Status make(const SumDomain& domain, std::span<const std::span<const std::byte>> statistics,
              std::uint32_t chunks, std::size_t tile_bytes);
  void make_even(std::size_t granule, const SumDomain& domain, std::uint32_t chunks,
                 std::size_t tile_bytes);

  SumOrder order() const { return order_; }
  bool has_stages() const { return plans_.front().has_stages(); }
  // The same for all chunks.
  CodecKind kind() const { return codec_.kind(); }

  const SumPlan& plan(std::uint32_t chunk) const { return plans_[has_borders() ? chunk : 0]; }
  // The index, among all parameters, of parameter 0 of the chunk's plan.
  std::size_t first_parameter(std::uint32_t chunk) const {
    return has_borders() ? borders_[chunk] : 0;
  }
  std::uint32_t tiles(std::uint32_t chunk) const { return plan(chunk).tiles().tiles_per_chunk(); }
  // Numbered as in the chunk's plan.
  std::span<const Piece> pieces(std::uint32_t chunk, std::uint32_t tile) const {
    return plan(chunk).tiles().pieces(has_borders() ? 0 : chunk, tile);
  }
  // Replaces `out` by the pieces of a whole chunk, numbered among all parameters.
  void pieces_of(std::uint32_t chunk, std::vector<Piece>& out) const;
  // Whether a tile has no message. Depends on sizes only, so it is equal on all ranks.
  bool is_empty(std::uint32_t chunk, std::uint32_t tile) const;

 private:
  bool has_borders() const { return !borders_.empty(); }
  // Calls work(plan, domain, chunks) for each plan, until one fails.
  template <typename Work>
  Status for_each_plan(const SumDomain& domain, std::uint32_t chunks, Work work);

  const Codec& codec_;
  SumOrder order_;
  std::vector<SumPlan> plans_;        // one, or one per given chunk
  std::vector<std::size_t> borders_;  // copied from the domain
  std::vector<std::size_t> values_;   // of each given chunk
  std::vector<Piece> whole_;          // the parameters of a given chunk
};

}  // namespace nf
