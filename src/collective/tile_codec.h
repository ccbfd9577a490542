// The operations of Codec on tiles. The message of a tile is the concatenation of the messages of
// its pieces, then zeros up to the padded size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/chunk_plans.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The buffers of one parameter during a sum.
struct ParameterView {
  std::uint64_t key = 0;
  Values result;  // receives the sum
  Values work;    // the rank's own values, then partial sums: FP32, or the same as result
  std::span<const std::byte> statistics = {};  // combined; the whole parameter's
  std::span<float> residual = {};  // this rank's encoding errors; empty without error feedback
};

struct TileCodec {
  const ChunkPlans* plans = nullptr;
  std::span<const ParameterView> parameters;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool keeps_residual = false;
  float loss_scale = 1;  // of the work values; residuals are stored without it

  struct Tile {
    std::uint32_t chunk = 0;
    std::uint32_t index = 0;
  };

  bool is_empty(Tile tile) const { return plans->is_empty(tile.chunk, tile.index); }
  std::size_t message_size(Tile tile, std::uint32_t contributions) const;

  // out = work.
  Status encode(Tile tile, Origin origin, std::span<std::byte> out) const;
  // work += message.
  Status decode_add(Tile tile, Origin origin, std::span<const std::byte> message) const;
  Status decode_add_encode(Tile tile, Origin origin, std::span<const std::byte> message,
                           Origin total, std::span<std::byte> out) const;
  Status merge(Tile tile, Origin first, std::span<const std::byte> first_message, Origin second,
               std::span<const std::byte> second_message, std::uint32_t encoder,
               std::span<std::byte> out) const;
  // result = message.
  Status decode(Tile tile, Origin origin, std::span<const std::byte> message) const;
  // residual = (work - message) / loss scale. `scratch` is a buffer that grows as needed.
  Status keep_residual(Tile tile, Origin origin, std::span<const std::byte> message,
                       std::vector<float>& scratch) const;

 private:
  std::size_t piece_size(Tile tile, const Piece& piece, std::uint32_t contributions) const;
  const SumPlan& plan(Tile tile) const { return plans->plan(tile.chunk); }
  const Codec& codec(Tile tile, Origin origin) const {
    return plan(tile).codec(origin.contributions);
  }
  const ParameterView& parameter_of(Tile tile, const Piece& piece) const {
    return parameters[plans->first_parameter(tile.chunk) + piece.parameter];
  }
  // Calls work(parameter, piece) for each piece.
  template <typename Work>
  Status for_each(Tile tile, Work work) const;
  Slice slice(Tile tile, const Piece& piece, std::uint32_t contributions) const;
};

}  // namespace nf
