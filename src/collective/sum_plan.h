// What all ranks know of a sum before its payload moves: the codec and the widths of every hop, and
// the tiles. A pure function of the sizes and the combined statistics, so it is the same
// everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/tile_map.h"
#include "neuron_fabric/codec.h"

namespace nf {

class SumPlan {
 public:
  // Borrows the codec.
  SumPlan(const Codec& codec, SumOrder order);

  // Cuts `domain` into chunks and tiles. `counts` are the sizes of the whole parameters. From here
  // on the sizes of all messages are known; where the codec chooses no widths the plan is made.
  void cut(std::span<const Piece> domain, std::span<const std::size_t> counts, std::uint32_t chunks,
           std::size_t tile_bytes);
  // The same, and chooses all widths from the parameters' combined statistics.
  Status make(std::span<const Piece> domain, std::span<const std::size_t> counts,
              std::span<const std::span<const std::byte>> statistics, std::uint32_t chunks,
              std::size_t tile_bytes);
  // The same number of granules for each tile, about tile_bytes of FP32 values. Precondition: the
  // codec chooses no widths.
  void make_even(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                 std::size_t tile_bytes);

  SumOrder order() const { return order_; }
  // Whether messages have other widths as they grow.
  bool has_stages() const { return stages_.size() > 1; }
  const TileMap& tiles() const { return tiles_; }
  // Of a message that sums so many ranks. All have the same kind and granule and read the same
  // statistics.
  const Codec& codec(std::uint32_t contributions) const { return *stage_of(contributions).codec; }
  // The widths of a whole parameter, there; empty where the codec chooses none.
  std::span<const std::uint8_t> widths(std::uint32_t contributions, std::size_t parameter) const;
  // Where the codec chooses widths: the size of every tile's message, padded. Else 0.
  std::size_t padded_size(std::uint32_t contributions) const {
    return stage_of(contributions).padded_size;
  }
  // Whether messages of these two sizes of sums have the same codec.
  bool is_one_stage(std::uint32_t a, std::uint32_t b) const { return stage(a) == stage(b); }

  // For whoever makes the plan elsewhere, as a device does: the stages by number, which of them a
  // message belongs to, whose widths say where tiles begin, and how many bytes they may take.
  std::size_t stage_count() const { return stages_.size(); }
  std::size_t stage(std::uint32_t contributions) const {
    return static_cast<std::size_t>(&stage_of(contributions) - stages_.data());
  }
  const Codec& stage_codec(std::size_t stage) const { return *stages_[stage].codec; }
  std::size_t stage_padded_size(std::size_t stage) const { return stages_[stage].padded_size; }
  std::size_t placing_stage() const { return placing_; }
  std::size_t placing_capacity() const { return capacity(stages_[placing_]); }

 private:
  struct Stage {
    std::uint32_t most_contributions = 0;
    const Codec* codec = nullptr;
    std::size_t padded_size = 0;
    std::vector<std::uint8_t> widths = {};  // of all parameters
  };

  const Stage& stage_of(std::uint32_t contributions) const;
  std::size_t capacity(const Stage& stage) const { return stage.codec->payload_capacity(counts_); }
  Status choose(Stage& stage, std::span<const Piece> pieces,
                std::span<const std::span<const std::byte>> statistics, std::size_t capacity);

  SumOrder order_;
  std::vector<Hop> hops_;
  std::vector<Stage> stages_;  // by most_contributions
  std::size_t placing_ = 0;    // the stage whose widths say where tiles begin
  TileMap tiles_;
  std::vector<std::size_t> first_width_;  // by parameter, and one more at the end
  std::vector<WidthRequest> requests_;
  std::vector<std::size_t> counts_;  // of the domain
  std::vector<std::span<const std::uint8_t>> placing_widths_;
};

}  // namespace nf
