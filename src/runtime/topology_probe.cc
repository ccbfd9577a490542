#include "runtime/topology_probe.h"

#include <algorithm>

#include "runtime/host_probe.h"

namespace nf {
namespace {

constexpr std::size_t kRowSize = 512;  // values; powersgd sums matrices
constexpr std::size_t kMinValues = 64 << 10;
constexpr std::size_t kMaxValues = 1 << 20;
// Times in seconds. A sum of this length is not dominated by its latency.
constexpr double kLongEnough = 0.01;
constexpr double kBudget = 0.4;  // of all sums together
constexpr int kFirstRounds = 2;  // the first one allocates buffers
constexpr int kMoreRounds = 1;
// A candidate whose first sums take this many times the best one is not measured again.
constexpr double kHopeless = 2;

std::size_t whole_rows(std::size_t values) { return (values + kRowSize - 1) / kRowSize * kRowSize; }

}  // namespace

Expected<double> TopologyProbe::time(AllReduce& sum, int rounds) {
  static const std::uint64_t key = parameter_key("neuron_fabric.topology");
  double min = 0;
  for (int round = 0; round < rounds; ++round) {
    std::copy_n(own_.begin(), size_, work_.begin());
    const Gradient gradient{.parameter = key,
                            .values = Values(std::span(work_).first(size_)),
                            .rows = size_ / kRowSize};
    const Expected<double> seconds = clock_.time(
        [&] { return sum.run({.step = step_++, .gradients = std::span(&gradient, 1)}); });
    if (!seconds) return seconds;
    spent_ += *seconds;
    min = round == 0 ? *seconds : std::min(min, *seconds);
  }
  return min;
}

Expected<double> TopologyProbe::find_size(AllReduce& sum, std::size_t values) {
  const std::size_t max = std::min(kMaxValues, values);
  own_ = probe_values(max, transport_.rank());
  work_.resize(max);
  for (size_ = std::min(kMinValues, max);; size_ = std::min(4 * size_, max)) {
    const Expected<double> seconds = time(sum, kFirstRounds);
    if (!seconds || *seconds > kLongEnough || size_ == max) return seconds;
  }
}

Expected<std::vector<TopologyTime>> TopologyProbe::measure(std::span<const Topology> candidates,
                                                           std::size_t values) {
  values = whole_rows(values);
  std::vector<TopologyTime> times;
  double best = 0;  // seconds of a sum along the fastest candidate so far
  // All ranks share the times, so all of them leave out the same sums.
  const auto is_spent = [this] { return spent_ > kBudget; };
  for (const Topology topology : candidates) {
    if (!times.empty() && is_spent()) break;
    sum_.topology = topology;
    const Expected<std::unique_ptr<AllReduce>> sum = AllReduce::create(transport_, sum_);
    if (!sum) return sum.status();
    const Expected<double> first =
        times.empty() ? find_size(**sum, values) : time(**sum, kFirstRounds);
    if (!first) return first.status();
    double seconds = *first;
    const bool is_hopeless = !times.empty() && seconds > kHopeless * best;
    if (!is_hopeless && !is_spent()) {
      const Expected<double> more = time(**sum, kMoreRounds);
      if (!more) return more.status();
      seconds = std::min(seconds, *more);
    }
    best = times.empty() ? seconds : std::min(best, seconds);
    const double scale = static_cast<double>(values) / static_cast<double>(size_);
    times.push_back(
        {.topology = topology,
         .seconds = seconds * scale,
         .encodes = encodes_of(topology, sum_.codec, sum_.host_group_size, transport_.ranks())});
  }
  return times;
}

Expected<TopologyChoice> decide_topology(Transport& transport, StatisticsReducer& reducer,
                                         const FabricOptions& options, const Binding& binding) {
  const std::vector<Topology> candidates =
      topology_candidates(options, binding.profile(), transport.ranks());
  const std::optional<TypicalBucket> bucket =
      typical_bucket(binding, options.measured_bucket_values);
  if (candidates.size() == 1 || !bucket || options.decisions) {
    return TopologyChoice{.topology = candidates.front()};
  }
  TopologyProbe probe(transport, reducer,
                      {.codec = bucket->route,
                       .host_group_size = options.host_group_size,
                       .seed = options.seed,
                       .timeout = options.timeout,
                       .checksum = options.checksum});
  Expected<std::vector<TopologyTime>> times = probe.measure(candidates, bucket->values);
  if (!times) return times.status();
  return TopologyChoice{.topology = choose_topology(*times), .times = std::move(*times)};
}

}  // namespace nf
