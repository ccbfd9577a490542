// All-reduce with every rank in one place: the messages of the executor, made and folded in the
// same order, without transport or frames. It is what the executor is compared with, and how the
// error of a sum is measured. Values are asked for where they are needed and not kept, so that sums
// of thousands of ranks fit into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collective/schedule.h"
#include "collective/sum_plan.h"
#include "neuron_fabric/codec.h"
#include "neuron_fabric/topology.h"

namespace nf {

// Where the values of all ranks come from. Any thread may call.
class RankValues {
 public:
  virtual ~RankValues() = default;

  // Values first, first + 1, ... of a rank's parameter, as many as `scratch` has room for: written
  // there, or seen where they lie. `first` is a multiple of the codec's granule.
  virtual std::span<const float> read(std::uint32_t rank, std::size_t parameter, std::size_t first,
                                      std::span<float> scratch) const = 0;
};

struct SimulatedParameter {
  std::uint64_t key = 0;  // as Slice::parameter
  std::size_t count = 0;  // values
};

struct SimulationOptions {
  Topology topology = Topology::kRing;  // any but kHierarchical
  std::uint32_t ranks = 1;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::size_t tile_bytes = 256 << 10;  // of a message, about
};

// What came out for consecutive values of one parameter.
struct SummedPiece {
  Piece piece;
  std::span<const float> sum;     // as every rank decodes it
  std::span<const double> exact;  // of the values as they were, in double precision
  // What messages left out where they had no bits for it; empty where they all had some.
  std::span<const double> dropped;
};

// First take_statistics() of every rank, then make_plan(), then sum_chunk() of every chunk.
class SimulatedAllReduce {
 public:
  // Borrows codec and values. Fails on kHierarchical and where the codec cannot sum so many ranks.
  static Expected<SimulatedAllReduce> create(const Codec& codec, const SimulationOptions& options,
                                             std::span<const SimulatedParameter> parameters,
                                             const RankValues& values);

  // Different threads may do different ranks.
  Status take_statistics(std::uint32_t rank);
  // Combines the statistics and chooses widths.
  Status make_plan();

  std::uint32_t chunks() const { return chunk_count(options_.topology, options_.ranks); }
  // Sums one chunk and shows the result piece by piece, each once and in order. Returns the bytes
  // that all ranks together send for it: messages without padding, and a frame header for each.
  // Different threads may do different chunks.
  Expected<std::uint64_t> sum_chunk(std::uint32_t chunk,
                                    const std::function<void(const SummedPiece&)>& visit) const;

  // What all ranks together send for the statistics: each sends its own of a part to the owner of
  // that part, who sends the combined ones back.
  std::uint64_t statistics_bytes() const;

 private:
  class Fold;

  SimulatedAllReduce(const Codec& codec, const SimulationOptions& options,
                     std::span<const SimulatedParameter> parameters, const RankValues& values);

  // The bytes of one parameter among the statistics of all.
  template <typename Byte>
  std::span<Byte> part_of(std::span<Byte> statistics, std::size_t parameter) const {
    return statistics.subspan(statistics_at_[parameter],
                              statistics_at_[parameter + 1] - statistics_at_[parameter]);
  }

  const Codec* codec_;
  SimulationOptions options_;
  std::vector<SimulatedParameter> parameters_;
  const RankValues* values_;
  std::vector<std::size_t> statistics_at_;       // by parameter, and one more at the end
  std::vector<std::vector<std::byte>> by_rank_;  // until they are combined
  std::vector<std::byte> statistics_;            // combined, of all parameters
  SumPlan plan_;
};

// All of the above in this thread. `sums` has the room of each parameter.
Status simulate_all_reduce(const Codec& codec, const SimulationOptions& options,
                           std::span<const SimulatedParameter> parameters, const RankValues& values,
                           std::span<const std::span<float>> sums);

}  // namespace nf
