#include "runtime/link_probe.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "collective/traffic_model.h"

namespace nf {
namespace {

constexpr std::size_t kMinBytes = 64 << 10;
// In seconds. A transfer of this length gives a good estimate of the bandwidth. On fast links,
// large transfers are long enough sooner, because their latency is low.
constexpr std::size_t kLargeBytes = 4 << 20;
constexpr std::size_t kMaxBytes = 16 << 20;
constexpr double kLongEnough = 0.01;
constexpr double kLongEnoughIfLarge = 0.001;
constexpr int kRounds = 3;
constexpr int kLatencyRounds = 5;

}  // namespace

// The gather before acts as a barrier. The gather after gives all ranks the time of the slowest.
template <typename Work>
Expected<double> LinkProbe::time(Work work) {
  std::vector<double> by_rank;
  NF_RETURN_IF_ERROR(statistics_reducer_.gather(0, by_rank));
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(work());
  const std::chrono::duration<double> own = transport_.now() - begin;
  NF_RETURN_IF_ERROR(statistics_reducer_.gather(own.count(), by_rank));
  return std::ranges::max(by_rank);
}

// The minimum is not affected by a rank that was descheduled for a moment. All ranks have the same
// times and so the same minimum.
template <typename Work>
Expected<double> LinkProbe::min_time(Work work, int rounds) {
  double min = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const Expected<double> seconds = time(work);
    if (!seconds) return seconds.status();
    min = std::min(min, *seconds);
  }
  return min;
}

Expected<LinkFigures> LinkProbe::measure_link() {
  LinkFigures link;
  const Expected<double> latency =
      min_time([this] { return probe_.shift(sizeof(float)); }, kLatencyRounds);
  if (!latency) return latency.status();
  link.latency = *latency;
  const Expected<double> dense_latency =
      min_time([this] { return probe_.sum_dense(sizeof(float)); }, kLatencyRounds);
  if (!dense_latency) return dense_latency.status();
  link.dense_latency = *dense_latency;

  const double share = dense_share(collective_, transport_.ranks());
  for (std::size_t bytes = kMinBytes;; bytes *= 4) {
    const Expected<double> seconds = min_time([&] { return probe_.shift(bytes); }, kRounds);
    if (!seconds) return seconds.status();
    link.bytes_per_second = static_cast<double>(bytes) / std::max(*seconds - link.latency, 1e-9);
    const Expected<double> dense = min_time([&] { return probe_.sum_dense(bytes); }, kRounds);
    if (!dense) return dense.status();
    link.dense_bytes_per_second =
        share * static_cast<double>(bytes) / std::max(*dense - link.dense_latency, 1e-9);
    const double long_enough = bytes < kLargeBytes ? kLongEnough : kLongEnoughIfLarge;
    if (*seconds > long_enough || *dense > 2 * long_enough || bytes >= kMaxBytes) return link;
  }
}

Expected<CodecFigures> LinkProbe::measure_codec(const AllReduceOptions& sum,
                                                const LinkFigures& link) {
  const ParameterShape shape = probe_.shape();
  const std::uint32_t ranks = transport_.ranks();
  const Expected<TrafficModel> traffic =
      collective_ == Collective::kReduceScatter
          ? model_reduce_scatter(sum, std::vector(ranks, std::vector{shape.count / ranks}))
          : model_traffic(sum, std::span(&shape, 1), ranks);
  if (!traffic) return traffic.status();
  std::uint64_t step = 0;  // the first call also allocates buffers
  const Expected<double> seconds =
      min_time([&] { return probe_.sum_low_bit(sum.codec, step++); }, 1 + kRounds);
  if (!seconds) return seconds.status();
  const double wire =
      (traffic->hops - traffic->inside_hops) * link.latency +
      static_cast<double>(traffic->bytes - traffic->inside_bytes) / link.bytes_per_second;
  return CodecFigures{.seconds_per_value =
                          std::max(0.0, *seconds - wire) / static_cast<double>(shape.count)};
}

}  // namespace nf
