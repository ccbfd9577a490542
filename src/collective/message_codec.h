// The operations of an exchange on messages. The message of a chunk holds one tile, or consecutive
// tiles of several parts that are small together: a part is the values of one codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/tile_codec.h"
#include "neuron_fabric/codec.h"

namespace nf {

class MessageCodec {
 public:
  // A message of a chunk.
  struct Place {
    std::uint32_t chunk = 0;
    std::uint32_t index = 0;
  };

  // Lists the messages: the tiles of all parts, in order. The first tile of a part joins the last
  // message of the parts before it if the contribution of both is at most max_bytes. So a part
  // alone has one message per tile. Depends on sizes only, so it is equal on all ranks. Borrows the
  // parts.
  void assign(std::span<const TileCodec> parts, std::uint32_t chunks, std::size_t max_bytes);

  std::size_t parts() const { return parts_.size(); }
  std::uint32_t messages(std::uint32_t chunk) const {
    return static_cast<std::uint32_t>(first_message_[chunk + 1] - first_message_[chunk]);
  }
  // An empty message is not sent.
  bool is_empty(Place place) const { return tiles(place).empty(); }
  std::size_t size(Place place, std::uint32_t contributions) const;
  // Calls visit(part, size) for each tile of a message.
  template <typename Visit>
  void for_each_size(Place place, std::uint32_t contributions, Visit visit) const {
    for (const PartTile& one : tiles(place)) {
      visit(one.part, parts_[one.part].message_size(one.tile, contributions));
    }
  }
  // Whether partial sums of the message, or of a part of it, are kept as messages.
  bool merges(Place place) const;

  // Encodes the rank's own values, and stores the errors of parts with error feedback.
  Status encode(Place place, Origin origin, std::span<std::byte> out);

  struct Incoming {
    Origin origin;
    std::span<const std::byte> message;
    Origin held_origin;                    // of `held`
    std::span<const std::byte> held = {};  // the partial sum if merges(); empty before the first
    Origin total;                          // of the own values and all messages so far
    bool is_last = false;                  // of the messages for this place
    bool keeps_sum = false;                // the whole sum stays in the work values
  };
  // Adds a message to the rank's partial sum. Writes to `out` the partial sums of parts that merge
  // and, with the last message, all sums that are not kept. `out` may be empty if there are none.
  Status fold(Place place, const Incoming& incoming, std::span<std::byte> out);

  // result = message. If `only_merged`, skips parts that do not merge, whose kept sums are in the
  // work values.
  Status decode(Place place, Origin origin, std::span<const std::byte> message,
                bool only_merged) const;

 private:
  struct PartTile {
    std::uint32_t part = 0;
    TileCodec::Tile tile;
  };

  std::span<const PartTile> tiles(Place place) const {
    const std::size_t at = first_message_[place.chunk] + place.index;
    return std::span(tiles_).subspan(first_tile_[at], first_tile_[at + 1] - first_tile_[at]);
  }
  bool merges(const PartTile& one) const { return merges_messages(parts_[one.part].plans->kind()); }
  Status fold_tile(const TileCodec& codec, TileCodec::Tile tile, const Incoming& incoming,
                   bool merges, std::span<std::byte> out);

  std::span<const TileCodec> parts_;
  std::vector<PartTile> tiles_;             // without empty ones
  std::vector<std::size_t> first_tile_;     // by message, and one more at the end
  std::vector<std::size_t> first_message_;  // by chunk, and one more at the end
  std::vector<float> values_;
  std::vector<std::byte> own_;
};

}  // namespace nf
