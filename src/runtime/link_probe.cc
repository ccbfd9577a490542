#include "runtime/link_probe.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "collective/traffic_model.h"

namespace nf {
namespace {

constexpr std::size_t kLeastBytes = 64 << 10;
constexpr std::size_t kMostBytes = 16 << 20;
// A transfer that took so long says enough of the link's speed.
constexpr double kLongEnough = 0.03;
constexpr int kLatencyRounds = 5;

}  // namespace

// The gather before is a barrier of sorts; the one after makes all ranks know the slowest.
template <typename Work>
Expected<double> LinkProbe::time(Work work) {
  std::vector<double> by_rank;
  NF_RETURN_IF_ERROR(exchange_.gather(0, by_rank));
  const Duration begin = transport_.now();
  NF_RETURN_IF_ERROR(work());
  const std::chrono::duration<double> own = transport_.now() - begin;
  NF_RETURN_IF_ERROR(exchange_.gather(own.count(), by_rank));
  return std::ranges::max(by_rank);
}

Expected<LinkFigures> LinkProbe::measure_link() {
  LinkFigures link;
  std::vector<double> latencies;
  std::vector<double> dense_latencies;
  for (int round = 0; round < kLatencyRounds; ++round) {
    const Expected<double> seconds = time([this] { return probe_.pass_on(sizeof(float)); });
    if (!seconds) return seconds.status();
    latencies.push_back(*seconds);
    const Expected<double> dense = time([this] { return probe_.sum_dense(sizeof(float)); });
    if (!dense) return dense.status();
    dense_latencies.push_back(*dense);
  }
  link.latency = std::ranges::min(latencies);
  link.dense_latency = std::ranges::min(dense_latencies);

  const double share = 2.0 * (transport_.ranks() - 1) / transport_.ranks();
  for (std::size_t bytes = kLeastBytes;; bytes *= 4) {
    const Expected<double> seconds = time([&] { return probe_.pass_on(bytes); });
    if (!seconds) return seconds.status();
    link.bytes_per_second = static_cast<double>(bytes) / std::max(*seconds, 1e-9);
    const Expected<double> dense = time([&] { return probe_.sum_dense(bytes); });
    if (!dense) return dense.status();
    link.dense_bytes_per_second =
        share * static_cast<double>(bytes) / std::max(*dense - link.dense_latency, 1e-9);
    if (*seconds > kLongEnough || *dense > 2 * kLongEnough || bytes >= kMostBytes) return link;
  }
}

Expected<CodecFigures> LinkProbe::measure_codec(const std::string& route, Topology topology,
                                                const LinkFigures& link) {
  const ParameterShape shape = probe_.shape();
  const Expected<TrafficModel> traffic = model_traffic({.codec = route, .topology = topology},
                                                       std::span(&shape, 1), transport_.ranks());
  if (!traffic) return traffic.status();
  double last = 0;
  for (std::uint64_t round = 0; round < 2; ++round) {  // the first also makes its buffers
    const Expected<double> seconds = time([&] { return probe_.sum_low_bit(route, round); });
    if (!seconds) return seconds.status();
    last = *seconds;
  }
  const double wire =
      traffic->hops * link.latency + static_cast<double>(traffic->bytes) / link.bytes_per_second;
  return CodecFigures{.seconds_per_value =
                          std::max(0.0, last - wire) / static_cast<double>(shape.count)};
}

}  // namespace nf
