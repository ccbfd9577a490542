// The plan of a sum before its payload is sent: the codec and the widths of every hop, and the
// tiles. A pure function of the sizes and the combined statistics, so it is equal on all ranks.
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

  // Cuts `domain` into chunks and tiles. `counts` are the sizes of the whole parameters. Determines
  // the sizes of all messages; if the codec chooses no widths, the plan is complete.
  void cut(std::span<const Piece> domain, std::span<const std::size_t> counts, std::uint32_t chunks,
           std::size_t tile_bytes);
  // Calls cut() and chooses all widths from the combined statistics of the parameters.
  Status make(std::span<const Piece> domain, std::span<const std::size_t> counts,
              std::span<const std::span<const std::byte>> statistics, std::uint32_t chunks,
              std::size_t tile_bytes);
  // Cuts into tiles of equal granule counts, about tile_bytes of FP32 values each. Precondition:
  // the codec chooses no widths.
  void make_even(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                 std::size_t tile_bytes);

  SumOrder order() const { return order_; }
  // Whether the codec changes with the number of contributions.
  bool has_stages() const { return stages_.size() > 1; }
  const TileMap& tiles() const { return tiles_; }
  // The codec of messages that sum this many ranks. All have the same kind and granule and use the
  // same statistics.
  const Codec& codec(std::uint32_t contributions) const { return *stage_of(contributions).codec; }
  // The widths of a whole parameter in such messages; empty if the codec chooses none.
  std::span<const std::uint8_t> widths(std::uint32_t contributions, std::size_t parameter) const;
  // The padded size of every tile's message if the codec chooses widths, otherwise 0.
  std::size_t padded_size(std::uint32_t contributions) const {
    return stage_of(contributions).padded_size;
  }
  // Whether messages with a and with b contributions have the same codec.
  bool is_one_stage(std::uint32_t a, std::uint32_t b) const { return stage(a) == stage(b); }

  // For plans that are made on a device: the stages by number, the stage of a message, the stage
  // whose widths determine the tile borders, and its budget in bytes.
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
    std::uint32_t max_contributions = 0;
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
  std::vector<Stage> stages_;  // by max_contributions
  std::size_t placing_ = 0;    // the stage whose widths determine the tile borders
  TileMap tiles_;
  std::vector<std::size_t> first_width_;  // by parameter, and one more at the end
  std::vector<WidthRequest> requests_;
  std::vector<std::size_t> counts_;  // of the domain
  std::vector<std::span<const std::uint8_t>> placing_widths_;
};

}  // namespace nf
