#include "nf/plan/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/buffer.h"
#include "base/checksum.h"
#include "neuron_fabric/codec.h"
#include "nf/support/gradients.h"
#include "runtime/glob.h"

namespace nf::cli {
namespace {

// One parameter on its way.
struct Passenger {
  const ParameterShape* parameter = nullptr;
  std::vector<std::byte> statistics;
  std::vector<std::uint8_t> widths;
};

// The values differ by parameter, not by rank: sizes depend on neither.
Values fill_values(const ParameterShape& parameter, Buffer& buffer) {
  if (buffer.size() < parameter.count * sizeof(float)) {
    buffer = Buffer(parameter.count * sizeof(float));
  }
  const std::span<float> values = buffer.as<float>().first(parameter.count);
  GradientMixture{.seed = checksum(parameter.name), .correlation = 1}.fill(0, 0, values);
  return values;
}

// What values cost between two scales: a message grows by `bytes` for every `values`.
struct CodeRate {
  std::uint64_t values = 1;
  std::uint64_t bytes = 0;

  std::uint64_t bytes_of(std::uint64_t count) const {
    return (count * bytes + values - 1) / values;
  }
};

// The size of a contribution of `count` values, all of one width where the codec has widths.
std::uint64_t plain_size(const Codec& codec, std::uint64_t count, std::uint8_t width) {
  const std::vector<std::uint8_t> widths(codec.width_count(count), width);
  return codec.encoded_size({.count = count, .widths = widths}, 1);
}

// Messages that grow in proportion to their blocks hold codes alone, or nothing to tell codes from.
// In others the codes grow with every few values and the scales block by block: the least by which
// a few values lengthen a message is the codes alone.
CodeRate code_rate(const Codec& codec, std::uint8_t width) {
  constexpr std::uint64_t kFew = 160;  // whole units of 5 trits and of 32 codes
  constexpr std::uint64_t kTimes = 20;
  const std::uint64_t blocks = std::lcm(kFew, std::uint64_t{codec.granule()});
  const std::uint64_t blocks_bytes = plain_size(codec, blocks, width);
  if (plain_size(codec, kTimes * blocks, width) == kTimes * blocks_bytes) {
    return {.values = blocks, .bytes = blocks_bytes};
  }
  std::uint64_t least = blocks_bytes;
  std::uint64_t before = plain_size(codec, 0, width);
  for (std::uint64_t count = kFew; count <= kTimes * kFew; count += kFew) {
    const std::uint64_t size = plain_size(codec, count, width);
    least = std::min(least, size - before);
    before = size;
  }
  return {.values = kFew, .bytes = least};
}

class RouteMeasurement {
 public:
  RouteMeasurement(const Codec& codec, std::uint32_t ranks, RouteTraffic& traffic)
      : codec_(codec), ranks_(ranks), traffic_(traffic) {}

  Status run(std::vector<Passenger>& passengers) {
    NF_RETURN_IF_ERROR(first_phase(passengers));
    for (const Passenger& passenger : passengers) NF_RETURN_IF_ERROR(second_phase(passenger));
    return {};
  }

 private:
  Status first_phase(std::vector<Passenger>& passengers) {
    if (codec_.statistics_size(1) == 0) return {};
    std::vector<WidthRequest> requests;
    for (Passenger& passenger : passengers) {
      const std::size_t count = passenger.parameter->count;
      std::vector<std::byte> own(codec_.statistics_size(count));
      NF_RETURN_IF_ERROR(codec_.statistics(fill_values(*passenger.parameter, values_), own));
      const std::vector<std::span<const std::byte>> by_rank(ranks_, own);
      passenger.statistics.resize(own.size());
      NF_RETURN_IF_ERROR(codec_.combine_statistics(count, by_rank, passenger.statistics));
      passenger.widths.resize(codec_.width_count(count));
      requests.push_back(
          {.count = count, .statistics = passenger.statistics, .widths = passenger.widths});
      traffic_.statistics += own.size();
    }
    return codec_.choose_widths(requests, {.ranks = ranks_});
  }

  Status second_phase(const Passenger& passenger) {
    const ParameterShape& parameter = *passenger.parameter;
    const Slice slice{.seed = 1,
                      .parameter = checksum(parameter.name),
                      .count = parameter.count,
                      .ranks = ranks_,
                      .statistics = passenger.statistics,
                      .widths = passenger.widths};
    const std::size_t size = codec_.encoded_size(slice, 1);
    if (wire_.size() < size) wire_ = Buffer(size);
    const std::span<std::byte> wire = wire_.bytes().first(size);
    const Values values = fill_values(parameter, values_);
    NF_RETURN_IF_ERROR(codec_.encode(slice, Origin{}, values, wire));
    // What a receiver would refuse, for too many ranks perhaps, is no traffic.
    NF_RETURN_IF_ERROR(codec_.decode(slice, Origin{}, wire, values));
    const std::uint8_t width = passenger.widths.empty() ? 0 : passenger.widths.front();
    const std::uint64_t plain = plain_size(codec_, parameter.count, width);
    const std::uint64_t scales =
        plain - std::min(plain, code_rate(codec_, width).bytes_of(parameter.count));
    traffic_.scales += std::min<std::uint64_t>(scales, size);
    traffic_.codes += size - std::min<std::uint64_t>(scales, size);
    traffic_.back += codec_.encoded_size(slice, ranks_);
    return {};
  }

  const Codec& codec_;
  const std::uint32_t ranks_;
  RouteTraffic& traffic_;
  Buffer values_;
  Buffer wire_;
};

}  // namespace

Expected<std::vector<RouteTraffic>> measure_traffic(const ModelShapes& model,
                                                    std::span<const Route> routes,
                                                    std::uint32_t ranks, Progress& progress) {
  std::vector<RouteTraffic> traffic;
  for (const Route& route : routes) traffic.push_back({.route = route});
  traffic.push_back({.route = {.pattern = "(others)", .codec = "fp32"}});

  std::vector<std::vector<Passenger>> passengers(traffic.size());
  for (const ParameterShape& parameter : model.parameters) {
    std::size_t taken_by = routes.size();
    for (std::size_t r = 0; r < routes.size(); ++r) {
      if (matches(routes[r].pattern, parameter.name)) taken_by = r;
    }
    passengers[taken_by].push_back({.parameter = &parameter, .statistics = {}, .widths = {}});
    traffic[taken_by].parameters += 1;
    traffic[taken_by].values += parameter.count;
  }
  if (passengers.back().empty()) traffic.pop_back();

  for (std::size_t r = 0; r < traffic.size(); ++r) {
    RouteTraffic& route = traffic[r];
    const Expected<std::unique_ptr<Codec>> codec = make_codec(route.route.codec);
    if (!codec) return codec.status();
    route.route.codec = (*codec)->spec().to_string();
    progress.step();
    progress.show(route.route.codec);
    Status status = RouteMeasurement(**codec, ranks, route).run(passengers[r]);
    if (!status.ok()) {
      return Status(status.code(), fmt::format("{}: {}", route.route.codec, status.message()));
    }
  }
  return traffic;
}

}  // namespace nf::cli
