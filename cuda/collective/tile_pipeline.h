// The order of the kernels and exchanges of a sum. Exchanges run on the wire. Each tile is one
// round behind the tile before it, so that the exchange of one tile overlaps with the kernels of
// another.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/transport/wire.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

class TilePipeline {
 public:
  // Keeps a reference to the wire.
  explicit TilePipeline(Wire& wire) : wire_(wire) {}
  // Waits for the exchanges.
  ~TilePipeline();
  TilePipeline(const TilePipeline&) = delete;
  TilePipeline& operator=(const TilePipeline&) = delete;

  // Creates the wire and the events of a call with this many tiles. Called before the other
  // functions.
  Status reserve(std::uint32_t tiles);

  // For each tile and each of its `rounds`: compute(tile, round) enqueues the kernels before the
  // exchange on `stream`, and exchange(tile, round, wire) enqueues the exchange. After the last
  // exchange, compute(tile, rounds). Stops at the first error.
  template <typename Compute, typename Exchange>
  Status run(std::uint32_t tiles, std::size_t rounds, cudaStream_t stream, Compute compute,
             Exchange exchange) {
    for (std::size_t turn = 0; turn < tiles + rounds; ++turn) {
      for (std::uint32_t tile = 0; tile < tiles && tile <= turn; ++tile) {
        const std::size_t round = turn - tile;
        if (round > rounds) continue;
        if (round > 0) NF_RETURN_IF_ERROR(wait(stream, arrived_[tile]));
        NF_RETURN_IF_ERROR(compute(tile, round));
        if (round == rounds) continue;
        NF_RETURN_IF_ERROR(record(made_[tile], stream));
        NF_RETURN_IF_ERROR(wait(wire_.stream(), made_[tile]));
        NF_RETURN_IF_ERROR(exchange(tile, round, wire_.stream()));
        NF_RETURN_IF_ERROR(record(arrived_[tile], wire_.stream()));
      }
    }
    return {};
  }

  // For a call that failed after reserve(): later work on `stream` waits for its exchanges.
  Status wait_for_exchanges(cudaStream_t stream);

 private:
  static Status record(cudaEvent_t event, cudaStream_t stream);
  static Status wait(cudaStream_t stream, cudaEvent_t event);

  Wire& wire_;
  std::vector<cudaEvent_t> made_;     // by tile: the messages of the round are encoded
  std::vector<cudaEvent_t> arrived_;  // by tile: the messages of the round are received
};

}  // namespace nf::cuda
