#include "contribution.h"

#include <memory>
#include <vector>

#include "collective/low_rank_all_reduce.h"
#include "collective/route_memory.h"
#include "neuron_fabric/codec.h"
#include "runtime/route.h"

namespace nf::torch_front {
namespace {

std::uint64_t low_rank_bytes(std::uint32_t terms, std::span<const ModelParameter> parameters) {
  std::uint64_t values = 0;
  for (const ModelParameter& parameter : parameters) {
    if (parameter.count == 0) continue;
    const std::size_t rows = parameter.rows > 0 ? parameter.rows : 1;
    values += low_rank_values(rows, parameter.count / rows, terms);
  }
  return values * sizeof(float);
}

std::uint64_t codec_bytes(const Codec& codec, std::span<const ModelParameter> parameters) {
  std::uint64_t bytes = 0;
  std::vector<std::size_t> counts;
  bool has_widths = false;
  for (const ModelParameter& parameter : parameters) {
    bytes += codec.statistics_size(parameter.count);
    counts.push_back(parameter.count);
    has_widths |= codec.width_count(parameter.count) > 0;
  }
  // Widths are chosen for all parameters together, to fill the budget.
  if (has_widths) return bytes + codec.payload_capacity(counts);
  for (const std::size_t count : counts) bytes += codec.encoded_size({.count = count}, 1);
  return bytes;
}

}  // namespace

Expected<std::uint64_t> contribution_bytes(std::string_view route,
                                           std::span<const ModelParameter> parameters) {
  NF_RETURN_IF_ERROR(check_route(route));
  if (is_low_rank(route)) {
    const Expected<std::uint32_t> terms = LowRankAllReduce::terms_of(route);
    if (!terms) return terms.status();
    return low_rank_bytes(*terms, parameters);
  }
  const Expected<std::unique_ptr<Codec>> codec = make_codec(route);
  if (!codec) return codec.status();
  return codec_bytes(**codec, parameters);
}

}  // namespace nf::torch_front
