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

// One parameter of a route.
struct RoutedParameter {
  const ParameterShape* parameter = nullptr;
  std::vector<std::byte> statistics;
  std::vector<std::uint8_t> widths;
};

// All ranks have the same values, since sizes do not depend on differences between ranks.
Values fill_values(const ParameterShape& parameter, Buffer& buffer) {
  if (buffer.size() < parameter.count * sizeof(float)) {
    buffer = Buffer(parameter.count * sizeof(float));
  }
  const std::span<float> values = buffer.as<float>().first(parameter.count);
  GradientMixture{.seed = checksum(parameter.name), .correlation = 1}.fill(0, 0, values);
  return values;
}

// The marginal size of values between two scales: a message grows by `bytes` per `values` values.
struct CodeRate {
  std::uint64_t values = 1;
  std::uint64_t bytes = 0;

  std::uint64_t bytes_of(std::uint64_t count) const {
    return (count * bytes + values - 1) / values;
  }
};

// The size of a contribution of `count` values, all of one width if the codec has widths.
std::uint64_t plain_size(const Codec& codec, std::uint64_t count, std::uint8_t width) {
  const std::vector<std::uint8_t> widths(codec.width_count(count), width);
  return codec.encoded_size({.count = count, .widths = widths}, 1);
}

// If a message grows in proportion to its blocks, all of it counts as codes. Otherwise codes grow
// every few values and scales block by block, so the smallest growth by a few values is that of the
// codes alone.
CodeRate code_rate(const Codec& codec, std::uint8_t width) {
  constexpr std::uint64_t kFew = 160;  // whole units of 5 trits and of 32 codes
  constexpr std::uint64_t kTimes = 20;
  const std::uint64_t blocks = std::lcm(kFew, std::uint64_t{codec.granule()});
  const std::uint64_t blocks_bytes = plain_size(codec, blocks, width);
  if (plain_size(codec, kTimes * blocks, width) == kTimes * blocks_bytes) {
    return {.values = blocks, .bytes = blocks_bytes};
  }
  std::uint64_t min_growth = blocks_bytes;
  std::uint64_t before = plain_size(codec, 0, width);
  for (std::uint64_t count = kFew; count <= kTimes * kFew; count += kFew) {
    const std::uint64_t size = plain_size(codec, count, width);
    min_growth = std::min(min_growth, size - before);
    before = size;
  }
  return {.values = kFew, .bytes = min_growth};
}

class RouteMeasurement {
 public:
  RouteMeasurement(const Codec& codec, std::uint32_t ranks, RouteTraffic& traffic)
      : codec_(codec), ranks_(ranks), traffic_(traffic) {}

  Status run(std::vector<RoutedParameter>& parameters) {
    NF_RETURN_IF_ERROR(run_statistics(parameters));
    for (const RoutedParameter& routed : parameters) NF_RETURN_IF_ERROR(encode(routed));
    return {};
  }

 private:
  Status run_statistics(std::vector<RoutedParameter>& parameters) {
    if (codec_.statistics_size(1) == 0) return {};
    std::vector<WidthRequest> requests;
    for (RoutedParameter& routed : parameters) {
      const std::size_t count = routed.parameter->count;
      std::vector<std::byte> own(codec_.statistics_size(count));
      NF_RETURN_IF_ERROR(codec_.statistics(fill_values(*routed.parameter, values_), own));
      const std::vector<std::span<const std::byte>> by_rank(ranks_, own);
      routed.statistics.resize(own.size());
      NF_RETURN_IF_ERROR(codec_.combine_statistics(count, by_rank, routed.statistics));
      routed.widths.resize(codec_.width_count(count));
      requests.push_back(
          {.count = count, .statistics = routed.statistics, .widths = routed.widths});
      traffic_.statistics += own.size();
    }
    return codec_.choose_widths(requests, {.ranks = ranks_});
  }

  Status encode(const RoutedParameter& routed) {
    const ParameterShape& parameter = *routed.parameter;
    const Slice slice{.seed = 1,
                      .parameter = checksum(parameter.name),
                      .count = parameter.count,
                      .ranks = ranks_,
                      .statistics = routed.statistics,
                      .widths = routed.widths};
    const std::size_t size = codec_.encoded_size(slice, 1);
    if (wire_.size() < size) wire_ = Buffer(size);
    const std::span<std::byte> wire = wire_.bytes().first(size);
    const Values values = fill_values(parameter, values_);
    NF_RETURN_IF_ERROR(codec_.encode(slice, Origin{}, values, wire));
    // Decode, too: a message that a receiver would reject, for example for too many ranks, is an
    // error.
    NF_RETURN_IF_ERROR(codec_.decode(slice, Origin{}, wire, values));
    const std::uint8_t width = routed.widths.empty() ? 0 : routed.widths.front();
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

  std::vector<std::vector<RoutedParameter>> parameters(traffic.size());
  for (const ParameterShape& parameter : model.parameters) {
    std::size_t last_match = routes.size();
    for (std::size_t r = 0; r < routes.size(); ++r) {
      if (matches(routes[r].pattern, parameter.name)) last_match = r;
    }
    parameters[last_match].push_back({.parameter = &parameter, .statistics = {}, .widths = {}});
    traffic[last_match].parameters += 1;
    traffic[last_match].values += parameter.count;
  }
  if (parameters.back().empty()) traffic.pop_back();

  for (std::size_t r = 0; r < traffic.size(); ++r) {
    RouteTraffic& route = traffic[r];
    const Expected<std::unique_ptr<Codec>> codec = make_codec(route.route.codec);
    if (!codec) return codec.status();
    route.route.codec = (*codec)->spec().to_string();
    progress.step();
    progress.show(route.route.codec);
    Status status = RouteMeasurement(**codec, ranks, route).run(parameters[r]);
    if (!status.ok()) {
      return Status(status.code(), fmt::format("{}: {}", route.route.codec, status.message()));
    }
  }
  return traffic;
}

}  // namespace nf::cli
