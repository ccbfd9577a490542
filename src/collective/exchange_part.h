// One codec's part of an exchange (collective/exchange.h): the values that it encodes, their plans,
// statistics and route memory. A part may belong to different exchanges from call to call, of one
// at a time. Keeps its buffers and route memory from call to call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/chunk_plans.h"
#include "collective/residuals.h"
#include "collective/rms_history.h"
#include "collective/shard_borders.h"
#include "collective/statistics_stage.h"
#include "collective/tile_codec.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"

namespace nf {

class ExchangePart {
 public:
  // For rank `rank` of `ranks`. Fails with kBadConfig if the codec is invalid, or like check().
  static Expected<std::unique_ptr<ExchangePart>> create(const AllReduceOptions& options,
                                                        Collective collective, std::uint32_t rank,
                                                        std::uint32_t ranks);
  // Fails with kBadConfig if the codec or the host groups do not support this number of ranks.
  static Status check(const Codec& codec, const AllReduceOptions& options, std::uint32_t ranks);

  const std::string& codec() const { return name_; }  // canonical spelling
  std::uint32_t fingerprint() const { return fingerprint_; }
  // The bytes of all calls.
  const Traffic& traffic() const { return traffic_; }

  // As in AllReduce.
  std::vector<MemoryEntry> save_memory() const;
  Status load_memory(std::span<const MemoryEntry> memory);
  void forget(std::uint64_t parameter);
  void undo(std::uint64_t parameter);
  void reset();

 private:
  friend class Exchange;

  ExchangePart(const AllReduceOptions& options, Collective collective, std::uint32_t rank,
               std::uint32_t ranks, std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense);

  bool is_hierarchical() const { return options_.topology == Topology::kHierarchical; }
  bool scatters() const { return collective_ == Collective::kReduceScatter; }

  // The steps of a call, in this order.

  // `call.gradients` is not used. `shards` as in Exchange::Input.
  Status set_call(const AllReduceCall& call, std::span<const Gradient> gradients,
                  std::span<const std::size_t> shards);
  std::span<const Gradient> gradients() const { return gradients_; }
  std::span<const std::size_t> shards() const { return shards_; }
  // In a reduce-scatter, finds the parameters of each shard.
  Status set_borders();
  // Sets up the values to work on: the caller's, or an FP32 copy if those cannot hold partial sums.
  // `folds_values`: some rank adds several messages to its values.
  Status prepare(bool folds_values);
  // The tiles within the host group. From then on, the part sums this rank's share of the values.
  TileCodec plan_host_group();
  // Adds the residuals, and computes the statistics of the rank's own values unless it has the sum
  // of all ranks already.
  Status begin_statistics(float loss_scale, bool has_sum);
  // Empty if the codec has no statistics.
  std::span<const std::byte> statistics() const { return statistics_; }
  StatisticsPart statistics_part();
  // The tiles of the sum, from the combined statistics.
  Expected<TileCodec> plan_sum(std::uint32_t chunks, float loss_scale);
  // In a reduce-scatter, copies the sum of the own shard to the caller's values.
  Status store_own_shard();
  // In host groups, the tiles of the gather. `is_summed`: the sum is in the result already.
  Expected<TileCodec> plan_gather(bool is_summed);
  // Ends the call. Keeps the new residuals and the RMS history if the sum is finite: a step whose
  // sum contains NaN or Inf is skipped.
  Status finish(float loss_scale);

  // A hash of the RMS histories of the parameters of a call; 0 if the codec uses none.
  std::uint64_t history_of(std::span<const Gradient> gradients) const;
  // Undoes the scaling, and copies the sum to the caller's values.
  Status restore_units();
  TileCodec host_tiles() const;
  void widen(ConstValues values, std::span<float> out) const;
  Status copy_work_to_result(std::span<const Piece> pieces);
  std::span<const Piece> own_shard() const;
  // Whether the sum, as far as this rank has it, contains neither NaN nor Inf.
  bool is_finite() const;

  // Constant after construction.
  const AllReduceOptions options_;
  const Collective collective_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<Codec> codec_;
  const CodecStatistics statistics_kind_;
  const std::unique_ptr<Codec> dense_;  // fp32: within host groups, and to widen values
  const std::string name_;
  const std::uint32_t fingerprint_;

  // State of the current call; buffers keep their capacity.
  ChunkPlans plans_;
  ChunkPlans host_plans_;
  std::uint64_t step_ = 0;
  std::vector<Gradient> gradients_;
  std::vector<std::size_t> shards_;
  ShardBorders borders_;  // empty in an all-reduce
  std::vector<ParameterView> parameters_;
  std::vector<std::size_t> counts_;
  std::vector<Piece> whole_;
  std::vector<Piece> domain_;  // the values that this rank sums over all host groups
  std::vector<float> work_;
  std::vector<std::byte> statistics_;
  std::vector<std::span<std::byte>> statistics_by_parameter_;
  std::vector<std::span<const std::byte>> combined_;
  Traffic traffic_;

  // Empty unless the codec keeps residuals, or uses RMS histories; never both.
  Residuals residuals_;
  RmsHistory rms_history_;
};

}  // namespace nf
