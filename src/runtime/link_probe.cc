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
constexpr std::size_t kCodecValues = 512 << 10;

}  // namespace

LinkProbe::LinkProbe(Transport& transport, DenseSum& engine, Exchange& exchange, Duration timeout)
    : transport_(transport), engine_(engine), exchange_(exchange), timeout_(timeout) {}

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

Status LinkProbe::pass_on(std::size_t bytes) {
  const std::uint32_t ranks = transport_.ranks();
  sent_.resize(bytes / sizeof(float));
  received_.resize(bytes / sizeof(float));
  Transfer send{.peer = (transport_.rank() + 1) % ranks,
                .bytes = std::as_writable_bytes(std::span(sent_))};
  Transfer receive{.peer = (transport_.rank() + ranks - 1) % ranks,
                   .bytes = std::as_writable_bytes(std::span(received_))};
  Status status = transport_.receive(receive);
  if (status.ok()) status = transport_.send(send);
  while (status.ok() && !(send.is_done && receive.is_done)) {
    status = transport_.wait(transport_.now() + timeout_);
  }
  // The transfers end with this call: nobody may write to them any more.
  if (!status.ok()) transport_.abort(status);
  return status;
}

Expected<LinkFigures> LinkProbe::measure_link() {
  LinkFigures link;
  std::vector<double> latencies;
  std::vector<double> dense_latencies;
  std::vector<float> little(1, 0.0f);
  for (int round = 0; round < kLatencyRounds; ++round) {
    const Expected<double> seconds = time([this] { return pass_on(sizeof(float)); });
    if (!seconds) return seconds.status();
    latencies.push_back(*seconds);
    const Expected<double> dense = time([&] { return engine_.sum(Values(little)); });
    if (!dense) return dense.status();
    dense_latencies.push_back(*dense);
  }
  link.latency = std::ranges::min(latencies);
  link.dense_latency = std::ranges::min(dense_latencies);

  const double share = 2.0 * (transport_.ranks() - 1) / transport_.ranks();
  for (std::size_t bytes = kLeastBytes;; bytes *= 4) {
    const Expected<double> seconds = time([&] { return pass_on(bytes); });
    if (!seconds) return seconds.status();
    link.bytes_per_second = static_cast<double>(bytes) / std::max(*seconds, 1e-9);
    std::vector<float> values(bytes / sizeof(float), 0.0f);
    const Expected<double> dense = time([&] { return engine_.sum(Values(values)); });
    if (!dense) return dense.status();
    link.dense_bytes_per_second =
        share * static_cast<double>(bytes) / std::max(*dense - link.dense_latency, 1e-9);
    if (*seconds > kLongEnough || *dense > 2 * kLongEnough || bytes >= kMostBytes) return link;
  }
}

Expected<CodecFigures> LinkProbe::measure_codec(AllReduce& sum, const std::string& route,
                                                Topology topology, const LinkFigures& link) {
  const Expected<TrafficModel> traffic =
      model_traffic(route, std::span(&kCodecValues, 1), transport_.ranks(), topology);
  if (!traffic) return traffic.status();
  std::vector<float> values(kCodecValues);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Neither regular nor a hard case: a triangle about zero.
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761u + transport_.rank());
    values[i] = static_cast<float>(mixed & 0xffffu) - static_cast<float>(mixed >> 16);
  }
  const Gradient gradient{
      .parameter = parameter_key("neuron_fabric.probe"), .values = Values(values), .rows = 512};
  double last = 0;
  for (std::uint64_t round = 0; round < 2; ++round) {  // the first also makes its buffers
    const Expected<double> seconds =
        time([&] { return sum.run({.step = round, .gradients = std::span(&gradient, 1)}); });
    if (!seconds) return seconds.status();
    last = *seconds;
  }
  const double wire =
      traffic->hops * link.latency + static_cast<double>(traffic->bytes) / link.bytes_per_second;
  return CodecFigures{.seconds_per_value =
                          std::max(0.0, last - wire) / static_cast<double>(kCodecValues)};
}

}  // namespace nf
