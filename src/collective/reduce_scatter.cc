#include "neuron_fabric/reduce_scatter.h"

#include <fmt/format.h>

#include <utility>

#include "base/checksum.h"
#include "collective/codec_all_reduce.h"
#include "collective/host_groups.h"
#include "collective/low_rank_all_reduce.h"
#include "collective/shard_borders.h"

namespace nf {

std::uint64_t shard_key(std::uint64_t parameter, std::uint32_t shard) {
  const std::uint64_t place[] = {parameter, shard};
  return checksum(std::as_bytes(std::span(place)));
}

Status ReduceScatter::check(const AllReduceOptions& options) {
  const Expected<CodecSpec> spec = CodecSpec::parse(options.codec);
  if (!spec) return spec.status();
  if (spec->name == LowRankAllReduce::kName) {
    return {ErrorCode::kBadConfig,
            fmt::format("reduce_scatter does not support {}: its factors belong to whole matrices; "
                        "use a codec",
                        LowRankAllReduce::kName)};
  }
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (codec && (*codec)->uses_rms_history()) {
    return {
        ErrorCode::kBadConfig,
        fmt::format("reduce_scatter does not support '{}': a rank gets the sum of its own shard "
                    "only, so ranks share no RMS history; omit +rms",
                    options.codec)};
  }
  return check_topology(Collective::kReduceScatter, options.topology);
}

Expected<std::unique_ptr<ReduceScatter>> ReduceScatter::create(Transport& transport,
                                                               const AllReduceOptions& options) {
  NF_RETURN_IF_ERROR(check(options));
  Expected<std::unique_ptr<CodecAllReduce>> sum =
      CodecAllReduce::create(transport, options, Collective::kReduceScatter);
  if (!sum) return sum.status();
  return std::unique_ptr<ReduceScatter>(
      new ReduceScatter(std::move(*sum), transport.ranks(), positions_of(options)));
}

ReduceScatter::ReduceScatter(std::unique_ptr<CodecAllReduce> sum, std::uint32_t ranks,
                             std::uint32_t positions)
    : sum_(std::move(sum)), ranks_(ranks), positions_(positions) {}

ReduceScatter::~ReduceScatter() = default;

Status ReduceScatter::run(const ReduceScatterCall& call) {
  return sum_->complete(start(call), to_string(Collective::kReduceScatter), call.step);
}

Status ReduceScatter::start(const ReduceScatterCall& call) {
  gradients_.clear();
  shards_.clear();
  const auto shards = static_cast<std::uint32_t>(call.shards.size());
  for_each_owner(shards, positions_, [&](std::uint32_t owner) {
    for (Gradient gradient : call.shards[owner].gradients) {
      gradient.parameter = shard_key(gradient.parameter, owner);
      gradients_.push_back(gradient);
    }
    shards_.push_back(call.shards[owner].gradients.size());
  });
  return sum_->start_shards({.step = call.step,
                             .epoch = call.epoch,
                             .gradients = gradients_,
                             .loss_scale = call.loss_scale,
                             .loss_scale_version = call.loss_scale_version},
                            shards_);
}

Expected<bool> ReduceScatter::advance() { return sum_->advance(); }

std::string ReduceScatter::waiting_for() const { return sum_->waiting_for(); }

Traffic ReduceScatter::traffic() const { return sum_->traffic(); }

std::vector<MemoryEntry> ReduceScatter::save_memory() const { return sum_->save_memory(); }

Status ReduceScatter::load_memory(std::span<const MemoryEntry> memory) {
  return sum_->load_memory(memory);
}

void ReduceScatter::forget(std::uint64_t parameter) {
  for (std::uint32_t shard = 0; shard < ranks_; ++shard) sum_->forget(shard_key(parameter, shard));
}

void ReduceScatter::undo(std::uint64_t parameter) {
  for (std::uint32_t shard = 0; shard < ranks_; ++shard) sum_->undo(shard_key(parameter, shard));
}

void ReduceScatter::reset() { sum_->reset(); }

}  // namespace nf
