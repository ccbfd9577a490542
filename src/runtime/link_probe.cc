#include "runtime/link_probe.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collective/traffic_model.h"

namespace nf {
namespace {

constexpr std::size_t kMinBytes = 64 << 10;  // even if the maximum is less
// In seconds. A transfer of this length gives a good estimate of the bandwidth. On fast links,
// large transfers are long enough sooner, because their latency is low.
constexpr std::size_t kLargeBytes = 4 << 20;
constexpr double kLongEnough = 0.01;
constexpr double kLongEnoughIfLarge = 0.001;
constexpr int kRounds = 3;
constexpr int kLatencyRounds = 5;

}  // namespace

Expected<LinkFigures> LinkProbe::measure_link() {
  LinkFigures link;
  const Expected<double> latency =
      clock_.min_time([this] { return probe_.shift(sizeof(float)); }, kLatencyRounds);
  if (!latency) return latency.status();
  link.latency = *latency;
  const Expected<double> dense_latency =
      clock_.min_time([this] { return probe_.sum_dense(sizeof(float)); }, kLatencyRounds);
  if (!dense_latency) return dense_latency.status();
  link.dense_latency = *dense_latency;

  const double share = dense_share(collective_, ranks_);
  const std::size_t max_bytes = probe_.size().max_bytes;
  for (std::size_t bytes = kMinBytes;; bytes *= 4) {
    const Expected<double> seconds = clock_.min_time([&] { return probe_.shift(bytes); }, kRounds);
    if (!seconds) return seconds.status();
    link.bytes_per_second = static_cast<double>(bytes) / std::max(*seconds - link.latency, 1e-9);
    const Expected<double> dense =
        clock_.min_time([&] { return probe_.sum_dense(bytes); }, kRounds);
    if (!dense) return dense.status();
    link.dense_bytes_per_second =
        share * static_cast<double>(bytes) / std::max(*dense - link.dense_latency, 1e-9);
    const double long_enough = bytes < kLargeBytes ? kLongEnough : kLongEnoughIfLarge;
    if (*seconds > long_enough || *dense > 2 * long_enough || bytes >= max_bytes) return link;
  }
}

Expected<CodecFigures> LinkProbe::measure_codec(const AllReduceOptions& sum,
                                                const LinkFigures& link) {
  const ParameterShape shape = probe_.size().shape;
  const Expected<TrafficModel> traffic =
      collective_ == Collective::kReduceScatter
          ? model_reduce_scatter(sum, std::vector(ranks_, std::vector{shape.count / ranks_}))
          : model_traffic(sum, std::span(&shape, 1), ranks_);
  if (!traffic) return traffic.status();
  std::uint64_t step = 0;  // the first call also allocates buffers
  const Expected<double> seconds =
      clock_.min_time([&] { return probe_.sum_low_bit(sum.codec, step++); }, 1 + kRounds);
  if (!seconds) return seconds.status();
  const double wire =
      (traffic->hops - traffic->inside_hops) * link.latency +
      static_cast<double>(traffic->bytes - traffic->inside_bytes) / link.bytes_per_second;
  return CodecFigures{.seconds_per_value =
                          std::max(0.0, *seconds - wire) / static_cast<double>(shape.count)};
}

}  // namespace nf
