#include "runtime/statistics_reducer.h"

#include <fmt/format.h>

#include <utility>

namespace nf {

StatisticsReducer::StatisticsReducer(Transport& transport, std::uint64_t seed, Duration timeout)
    : sum_(transport, {.seed = seed, .timeout = timeout}),
      rank_(transport.rank()),
      ranks_(transport.ranks()) {}

Status StatisticsReducer::run(std::uint64_t step, std::uint64_t epoch, const LossScale& scale) {
  static const std::uint64_t key = parameter_key("neuron_fabric.statistics");
  return sum_.run({.step = step,
                   .epoch = epoch,
                   .loss_scale = scale.value,
                   .loss_scale_version = scale.version},
                  key, figures_);
}

Status StatisticsReducer::sum(const RankStatistics& local, std::uint64_t epoch, bool adds_norms,
                              LossScale& scale, StepStatistics& statistics) {
  figures_ = {static_cast<float>(local.loss), static_cast<float>(local.losses),
              static_cast<float>(local.lines), static_cast<float>(local.seconds),
              local.capacity_breach ? 1.0f : 0.0f};
  for (const RouteSample& sample : local.samples) {
    figures_.push_back(static_cast<float>(sample.error_energy));
    figures_.push_back(static_cast<float>(sample.energy));
  }
  for (std::size_t region = 0; adds_norms && region < statistics.regions.size(); ++region) {
    figures_.push_back(static_cast<float>(statistics.regions[region].energy));
    figures_.push_back(static_cast<float>(statistics.regions[region].non_finite));
  }
  for (const BucketTimes& times : local.buckets) {
    figures_.push_back(static_cast<float>(times.ready));
    figures_.push_back(static_cast<float>(times.done));
  }
  NF_RETURN_IF_ERROR(run(statistics.step, epoch, scale));
  scale = sum_.loss_scale();

  const auto ranks = static_cast<double>(ranks_);
  const float* next = figures_.data();
  const double losses = next[1];
  statistics.loss = losses > 0 ? *next / losses : 0;
  statistics.losses = static_cast<std::uint32_t>(losses);
  statistics.lines = next[2];
  statistics.seconds = next[3] / ranks;
  statistics.capacity_breaches = static_cast<std::uint32_t>(next[4]);
  next += 5;
  for (RegionStatistics& region : statistics.regions) {
    region.error_energy = *next++;
    region.sample_energy = *next++;
  }
  for (std::size_t region = 0; adds_norms && region < statistics.regions.size(); ++region) {
    statistics.regions[region].energy = *next++;
    statistics.regions[region].non_finite = static_cast<std::uint64_t>(*next++);
  }
  statistics.buckets.resize(local.buckets.size());
  for (BucketTimes& times : statistics.buckets) {
    times.ready = *next++ / ranks;
    times.done = *next++ / ranks;
  }
  return {};
}

Status StatisticsReducer::compare(std::uint64_t step, std::uint64_t state) {
  constexpr std::string_view kAdvice =
      "load the states of one checkpoint on all ranks, each rank its own, or on none";
  figures_.assign(1, 0.0f);
  Status status = run(step, 0, {});
  if (status.code() == ErrorCode::kDisagreement) {
    return {status.code(), fmt::format("{}: {}", status.message(), kAdvice)};
  }
  NF_RETURN_IF_ERROR(status);
  status = run(step, state, {});
  if (status.code() == ErrorCode::kDisagreement) {
    return {status.code(),
            fmt::format("ranks begin step {} with different states: {}", step, kAdvice)};
  }
  return status;
}

Status StatisticsReducer::gather(double value, std::vector<double>& by_rank) {
  figures_.assign(ranks_, 0.0f);
  figures_[rank_] = static_cast<float>(value);
  NF_RETURN_IF_ERROR(run(0, 0, {}));
  by_rank.assign(figures_.begin(), figures_.end());
  return {};
}

}  // namespace nf
