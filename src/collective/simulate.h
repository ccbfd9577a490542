// Simulates the all-reduce or reduce-scatter of all ranks in one process: the messages of the
// executor, encoded and folded in the same order, without transport or frames. Tests compare the
// executor with it, and `nf quality` measures the error of a sum with it. Values are read on demand
// and not stored, so that sums over thousands of ranks fit into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collective/chunk_plans.h"
#include "collective/schedule.h"
#include "neuron_fabric/codec.h"
#include "neuron_fabric/collective.h"
#include "neuron_fabric/topology.h"

namespace nf {

// The source of the values of all ranks. Thread-safe.
class RankValues {
 public:
  virtual ~RankValues() = default;

  // scratch.size() values of a rank's parameter from `first` on, either written to `scratch` or as
  // a view of existing memory.
  virtual std::span<const float> read(std::uint32_t rank, std::size_t parameter, std::size_t first,
                                      std::span<float> scratch) const = 0;
};

struct SimulatedParameter {
  std::uint64_t key = 0;  // Slice::parameter
  std::size_t count = 0;  // values
};

struct SimulationOptions {
  // In a reduce-scatter, each parameter is divided into as many parts as ranks, of equal size but
  // for the last ones, and shard r has part r of every parameter.
  Collective collective = Collective::kAllReduce;
  Topology topology = Topology::kRing;  // any but kHierarchical
  std::uint32_t ranks = 1;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::size_t tile_bytes = 256 << 10;  // approximate message size
};

// The result for consecutive values of one parameter.
struct SummedPiece {
  Piece piece;
  std::span<const float> sum;     // as every rank decodes it, or as the owner keeps it
  std::span<const double> exact;  // the sum of the original values in double precision
  // The sum of values that messages dropped because their width was 0; empty if no width was 0.
  std::span<const double> dropped;
};

// First compute_statistics() of every rank, then make_plan(), then sum_chunk() of every chunk.
class SimulatedAllReduce {
 public:
  // Borrows codec and values. Fails for kHierarchical, if the collective does not support the
  // topology, and if the codec does not support this number of ranks.
  static Expected<SimulatedAllReduce> create(const Codec& codec, const SimulationOptions& options,
                                             std::span<const SimulatedParameter> parameters,
                                             const RankValues& values);

  // May run concurrently for different ranks.
  Status compute_statistics(std::uint32_t rank);
  // Combines the statistics and chooses widths.
  Status make_plan();

  std::uint32_t chunks() const { return chunk_count(options_.topology, options_.ranks); }
  // Sums one chunk and calls `visit` for each piece of the result, once and in order. Returns the
  // bytes that all ranks together send for it: messages without padding, and a frame header per
  // message. May run concurrently for different chunks.
  Expected<std::uint64_t> sum_chunk(std::uint32_t chunk,
                                    const std::function<void(const SummedPiece&)>& visit) const;

  // The bytes that all ranks together send for the statistics, without frame headers.
  std::uint64_t statistics_bytes() const;

 private:
  class Fold;

  // Consecutive values of one parameter. Its draws and statistics start at its first value.
  struct Part {
    std::size_t parameter = 0;
    std::size_t first = 0;
    std::size_t count = 0;
    std::uint64_t key = 0;
  };

  SimulatedAllReduce(const Codec& codec, const SimulationOptions& options,
                     std::span<const SimulatedParameter> parameters, const RankValues& values);

  // The bytes of one part among the statistics of all.
  template <typename Byte>
  std::span<Byte> part_of(std::span<Byte> statistics, std::size_t part) const {
    return statistics.subspan(statistics_at_[part],
                              statistics_at_[part + 1] - statistics_at_[part]);
  }
  bool scatters() const { return options_.collective == Collective::kReduceScatter; }

  const Codec* codec_;
  SimulationOptions options_;
  std::vector<Part> parts_;           // whole parameters, or those of one shard after the other
  std::vector<std::size_t> borders_;  // of shards, as in SumDomain
  const RankValues* values_;
  std::vector<std::size_t> statistics_at_;       // by part, and one more at the end
  std::vector<std::vector<std::byte>> by_rank_;  // statistics, until they are combined
  std::vector<std::byte> statistics_;            // combined, of all parts
  ChunkPlans plans_;
};

// Runs all of the above in this thread and writes the sum of each parameter to `sums`.
Status simulate_all_reduce(const Codec& codec, const SimulationOptions& options,
                           std::span<const SimulatedParameter> parameters, const RankValues& values,
                           std::span<const std::span<float>> sums);

}  // namespace nf
