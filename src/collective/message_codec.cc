#include "collective/message_codec.h"

#include <algorithm>

namespace nf {
namespace {

// Takes the tiles of a message from its front.
template <typename Byte>
std::span<Byte> take(std::span<Byte>& rest, std::size_t size) {
  const std::span<Byte> taken = rest.first(std::min(size, rest.size()));
  rest = rest.subspan(taken.size());
  return taken;
}

}  // namespace

void MessageCodec::assign(std::span<const TileCodec> parts, std::uint32_t chunks,
                          std::size_t max_bytes) {
  parts_ = parts;
  tiles_.clear();
  first_tile_.clear();
  first_message_.assign(1, 0);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    std::size_t bytes = 0;  // of the last message
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      for (std::uint32_t index = 0; index < parts[part].plans->tiles(chunk); ++index) {
        const TileCodec::Tile tile{chunk, index};
        const bool is_empty = parts[part].is_empty(tile);
        const std::size_t size = is_empty ? 0 : parts[part].message_size(tile, 1);
        if (part == 0 || index > 0 || bytes + size > max_bytes) {
          first_tile_.push_back(tiles_.size());
          bytes = 0;
        }
        bytes += size;
        if (!is_empty) tiles_.push_back({part, tile});
      }
    }
    first_message_.push_back(first_tile_.size());
  }
  first_tile_.push_back(tiles_.size());
}

std::size_t MessageCodec::size(Place place, std::uint32_t contributions) const {
  std::size_t sum = 0;
  for_each_size(place, contributions, [&](std::uint32_t, std::size_t size) { sum += size; });
  return sum;
}

bool MessageCodec::merges(Place place) const {
  return std::ranges::any_of(tiles(place), [this](const PartTile& one) { return merges(one); });
}

Status MessageCodec::encode(Place place, Origin origin, std::span<std::byte> out) {
  for (const PartTile& one : tiles(place)) {
    const TileCodec& codec = parts_[one.part];
    const std::span<std::byte> to = take(out, codec.message_size(one.tile, origin.contributions));
    NF_RETURN_IF_ERROR(codec.encode(one.tile, origin, to));
    if (codec.keeps_residual) {
      NF_RETURN_IF_ERROR(codec.keep_residual(one.tile, origin, to, values_));
    }
  }
  return {};
}

Status MessageCodec::fold(Place place, const Incoming& incoming, std::span<std::byte> out) {
  Incoming rest = incoming;
  for (const PartTile& one : tiles(place)) {
    const TileCodec& codec = parts_[one.part];
    const auto size = [&](Origin origin) {
      return codec.message_size(one.tile, origin.contributions);
    };
    Incoming own = incoming;
    own.message = take(rest.message, size(incoming.origin));
    own.held = take(rest.held, size(incoming.held_origin));
    NF_RETURN_IF_ERROR(
        fold_tile(codec, one.tile, own, merges(one), take(out, size(incoming.total))));
  }
  return {};
}

Status MessageCodec::fold_tile(const TileCodec& codec, TileCodec::Tile tile,
                               const Incoming& incoming, bool merges, std::span<std::byte> out) {
  const Origin total = incoming.total;
  if (merges && incoming.held.empty() && codec.keeps_residual) {
    // The error of the own values is known only if they are encoded alone.
    const Origin own{total.encoder, 1};
    own_.resize(std::max(own_.size(), codec.message_size(tile, 1)));
    const std::span<std::byte> message = std::span(own_).first(codec.message_size(tile, 1));
    NF_RETURN_IF_ERROR(codec.encode(tile, own, message));
    NF_RETURN_IF_ERROR(codec.keep_residual(tile, own, message, values_));
    return codec.merge(tile, own, message, incoming.origin, incoming.message, total.encoder, out);
  }
  if (merges && !incoming.held.empty()) {
    return codec.merge(tile, incoming.held_origin, incoming.held, incoming.origin, incoming.message,
                       total.encoder, out);
  }
  if (!merges && (!incoming.is_last || incoming.keeps_sum)) {
    return codec.decode_add(tile, incoming.origin, incoming.message);
  }
  if (!merges && codec.keeps_residual) {
    NF_RETURN_IF_ERROR(codec.decode_add(tile, incoming.origin, incoming.message));
    NF_RETURN_IF_ERROR(codec.encode(tile, total, out));
    return codec.keep_residual(tile, total, out, values_);
  }
  return codec.decode_add_encode(tile, incoming.origin, incoming.message, total, out);
}

Status MessageCodec::decode(Place place, Origin origin, std::span<const std::byte> message,
                            bool only_merged) const {
  for (const PartTile& one : tiles(place)) {
    const TileCodec& codec = parts_[one.part];
    const auto own = take(message, codec.message_size(one.tile, origin.contributions));
    if (only_merged && !merges(one)) continue;
    NF_RETURN_IF_ERROR(codec.decode(one.tile, origin, own));
  }
  return {};
}

}  // namespace nf
