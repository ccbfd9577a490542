#include "collective/tile_codec.h"

#include <algorithm>

namespace nf {
namespace {

Values part(Values values, const Piece& piece) {
  return {static_cast<std::byte*>(values.data) + piece.first * size_of(values.type), piece.count,
          values.type};
}

// Splits the message of a tile into those of its pieces.
template <typename Byte>
class Reader {
 public:
  explicit Reader(std::span<Byte> message) : rest_(message) {}

  // Empty if the message is too short, which the codec then rejects.
  std::span<Byte> take(std::size_t size) {
    if (size > rest_.size()) return {};
    const std::span<Byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<Byte> rest() const { return rest_; }

 private:
  std::span<Byte> rest_;
};

void clear(std::span<std::byte> padding) {
  std::fill(padding.begin(), padding.end(), std::byte{0});
}

}  // namespace

Slice TileCodec::slice(Tile tile, const Piece& piece, std::uint32_t contributions) const {
  const ParameterView& parameter = parameter_of(tile, piece);
  return {.seed = seed,
          .step = step,
          .parameter = parameter.key,
          .first = piece.first,
          .count = piece.count,
          .ranks = plans->order().ranks,
          .statistics = parameter.statistics,
          .widths = plan(tile).widths(contributions, piece.parameter)};
}

template <typename Work>
Status TileCodec::for_each(Tile tile, Work work) const {
  for (const Piece& piece : plans->pieces(tile.chunk, tile.index)) {
    NF_RETURN_IF_ERROR(work(parameter_of(tile, piece), piece));
  }
  return {};
}

std::size_t TileCodec::piece_size(Tile tile, const Piece& piece,
                                  std::uint32_t contributions) const {
  return plan(tile)
      .codec(contributions)
      .encoded_size(slice(tile, piece, contributions), contributions);
}

std::size_t TileCodec::message_size(Tile tile, std::uint32_t contributions) const {
  if (const std::size_t padded = plan(tile).padded_size(contributions); padded != 0) return padded;
  std::size_t sum = 0;
  for (const Piece& piece : plans->pieces(tile.chunk, tile.index)) {
    sum += piece_size(tile, piece, contributions);
  }
  return sum;
}

Status TileCodec::encode(Tile tile, Origin origin, std::span<std::byte> out) const {
  Reader to(out);
  NF_RETURN_IF_ERROR(for_each(tile, [&](const ParameterView& parameter, const Piece& piece) {
    return codec(tile, origin)
        .encode(slice(tile, piece, origin.contributions), origin, part(parameter.work, piece),
                to.take(piece_size(tile, piece, origin.contributions)));
  }));
  clear(to.rest());
  return {};
}

Status TileCodec::decode_add(Tile tile, Origin origin, std::span<const std::byte> message) const {
  Reader from(message);
  return for_each(tile, [&](const ParameterView& parameter, const Piece& piece) {
    return codec(tile, origin)
        .decode_add(slice(tile, piece, origin.contributions), origin,
                    from.take(piece_size(tile, piece, origin.contributions)),
                    part(parameter.work, piece));
  });
}

Status TileCodec::decode_add_encode(Tile tile, Origin origin, std::span<const std::byte> message,
                                    Origin total, std::span<std::byte> out) const {
  if (!plan(tile).is_one_stage(origin.contributions, total.contributions)) {
    NF_RETURN_IF_ERROR(decode_add(tile, origin, message));
    return encode(tile, total, out);
  }
  Reader from(message);
  Reader to(out);
  NF_RETURN_IF_ERROR(for_each(tile, [&](const ParameterView& parameter, const Piece& piece) {
    return codec(tile, origin)
        .decode_add_encode(slice(tile, piece, origin.contributions), origin,
                           from.take(piece_size(tile, piece, origin.contributions)),
                           part(parameter.work, piece), total,
                           to.take(piece_size(tile, piece, total.contributions)));
  }));
  clear(to.rest());
  return {};
}

Status TileCodec::merge(Tile tile, Origin first, std::span<const std::byte> first_message,
                        Origin second, std::span<const std::byte> second_message,
                        std::uint32_t encoder, std::span<std::byte> out) const {
  const std::uint32_t total = first.contributions + second.contributions;
  Reader one(first_message);
  Reader two(second_message);
  Reader to(out);
  return for_each(tile, [&](const ParameterView& /*parameter*/, const Piece& piece) {
    return codec(tile, first)
        .merge(slice(tile, piece, total), first,
               one.take(piece_size(tile, piece, first.contributions)), second,
               two.take(piece_size(tile, piece, second.contributions)), encoder,
               to.take(piece_size(tile, piece, total)));
  });
}

Status TileCodec::decode(Tile tile, Origin origin, std::span<const std::byte> message) const {
  Reader from(message);
  return for_each(tile, [&](const ParameterView& parameter, const Piece& piece) {
    return codec(tile, origin)
        .decode(slice(tile, piece, origin.contributions), origin,
                from.take(piece_size(tile, piece, origin.contributions)),
                part(parameter.result, piece));
  });
}

Status TileCodec::keep_residual(Tile tile, Origin origin, std::span<const std::byte> message,
                                std::vector<float>& scratch) const {
  Reader from(message);
  return for_each(tile, [&](const ParameterView& parameter, const Piece& piece) -> Status {
    scratch.resize(std::max(scratch.size(), piece.count));
    const std::span<float> decoded = std::span(scratch).first(piece.count);
    NF_RETURN_IF_ERROR(codec(tile, origin)
                           .decode(slice(tile, piece, origin.contributions), origin,
                                   from.take(piece_size(tile, piece, origin.contributions)),
                                   decoded));
    const auto* sum = static_cast<const float*>(part(parameter.work, piece).data);
    float* lost = parameter.residual.data() + piece.first;
    const float unscale = 1 / loss_scale;
    for (std::size_t i = 0; i < piece.count; ++i) lost[i] = unscale * (sum[i] - decoded[i]);
    return {};
  });
}

}  // namespace nf
