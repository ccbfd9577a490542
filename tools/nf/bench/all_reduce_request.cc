#include "nf/bench/all_reduce_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "neuron_fabric/codec.h"

namespace nf::cli {

// The keys of the JSON text.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AllReduceRequest, collective, begin, end, factor,
                                                codecs, topologies, transport, host_group_size,
                                                dtype, repeat, tile, as_json)

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 34;

struct NativeAllReduce {
  std::string_view name;
  std::string_view transport;
};

constexpr std::array kNativeAllReduces{
    NativeAllReduce{kMpiFp32, "mpi"},   NativeAllReduce{kMpi16bit, "mpi"},
    NativeAllReduce{kNcclFp32, "nccl"}, NativeAllReduce{kNcclBf16, "nccl"},
    NativeAllReduce{kC10dFp32, "c10d"}, NativeAllReduce{kC10dBf16, "c10d"},
};

// Parses bytes such as "64M"; K, M and G are powers of two.
Expected<std::uint64_t> parse_size(std::string_view option, std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t index = unit.size() == 1 ? kUnits.find(unit) : std::string_view::npos;
  const std::size_t shift = unit.empty() ? 0 : 10 * (index + 1);
  const bool is_size = error == std::errc() && (unit.empty() || index != std::string_view::npos);
  if (!is_size || number > kMaxBytes >> shift || number << shift < sizeof(float)) {
    return Status(
        ErrorCode::kBadConfig,
        fmt::format("{}: '{}' is not a size in bytes from 4 to 16G, such as 4096, 64K or 1M",
                    option, text));
  }
  return number << shift;
}

// The values per rank of each size.
Expected<std::vector<std::size_t>> counts_of(const AllReduceRequest& request) {
  const Expected<std::uint64_t> begin = parse_size("-b", request.begin);
  if (!begin) return begin.status();
  const Expected<std::uint64_t> end = parse_size("-e", request.end);
  if (!end) return end.status();
  if (*begin > *end) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("-b ({}) exceeds -e ({})", request.begin, request.end));
  }
  std::vector<std::size_t> counts;
  for (std::uint64_t size = *begin; size <= *end; size *= request.factor) {
    counts.push_back(size / sizeof(float));
  }
  return counts;
}

Expected<std::vector<Topology>> topologies_of(const AllReduceRequest& request) {
  std::vector<Topology> topologies;
  for (const std::string& name : request.topologies) {
    const Expected<Topology> topology = find_topology(name);
    if (!topology) return topology.status();
    if (*topology == Topology::kHierarchical && request.host_group_size == 0) {
      return Status(ErrorCode::kBadConfig,
                    "the hierarchical topology needs --host-group, the number of ranks per host");
    }
    topologies.push_back(*topology);
  }
  if (request.host_group_size != 0 &&
      std::ranges::count(topologies, Topology::kHierarchical) == 0) {
    return Status(ErrorCode::kBadConfig,
                  "--host-group is only valid with the hierarchical topology");
  }
  return topologies;
}

// The canonical spelling of a codec; anything else unchanged.
std::string spelling_of(const std::string& text) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(text);
  return codec ? (*codec)->spec().to_string() : text;
}

// The cases of one size: each codec over each topology, and each native all-reduce once.
Expected<std::vector<AllReduceCase>> cases_of_one_size(const AllReduceRequest& request,
                                                       Collective collective) {
  const Expected<std::vector<Topology>> topologies = topologies_of(request);
  if (!topologies) return topologies.status();
  for (const Topology topology : *topologies) {
    NF_RETURN_IF_ERROR(check_topology(collective, topology));
  }
  std::vector<std::string> codecs = request.codecs;
  if (codecs.empty()) {
    for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  }
  std::vector<AllReduceCase> cases;
  for (const std::string& codec : codecs) {
    const auto* const native = std::ranges::find(kNativeAllReduces, codec, &NativeAllReduce::name);
    if (native == kNativeAllReduces.end()) {
      for (const Topology topology : *topologies) {
        cases.push_back({.codec = spelling_of(codec), .topology = topology});
      }
    } else if (collective != Collective::kAllReduce) {
      return Status(ErrorCode::kBadConfig, fmt::format("--codec {} is an all-reduce, not a {}",
                                                       codec, request.collective));
    } else if (native->transport == request.transport) {
      cases.push_back({.codec = codec, .topology = {}});
    } else {
      return Status(ErrorCode::kBadConfig,
                    fmt::format("--codec {} needs --transport {}", codec, native->transport));
    }
  }
  return cases;
}

}  // namespace

std::vector<std::string_view> native_all_reduces(std::string_view transport) {
  std::vector<std::string_view> names;
  for (const NativeAllReduce& native : kNativeAllReduces) {
    if (native.transport == transport) names.push_back(native.name);
  }
  return names;
}

std::string to_text(const AllReduceRequest& request) { return nlohmann::json(request).dump(); }

Expected<AllReduceRequest> parse_request(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<AllReduceRequest>();
  } catch (const nlohmann::json::exception& error) {
    return Status(ErrorCode::kInvalidArgument, error.what());
  }
}

Expected<AllReduceBench> make_bench(const AllReduceRequest& request) {
  const Expected<Collective> collective = find_collective(request.collective);
  if (!collective) return collective.status();
  AllReduceBench bench{.collective = *collective,
                       .cases = {},
                       .transport = request.transport,
                       .host_group_size = request.host_group_size,
                       .type = request.dtype == "bf16" ? DataType::kBfloat16 : DataType::kFloat32,
                       .repeat = request.repeat,
                       .as_json = request.as_json};
  const Expected<std::vector<std::size_t>> counts = counts_of(request);
  if (!counts) return counts.status();
  const Expected<std::vector<AllReduceCase>> cases = cases_of_one_size(request, *collective);
  if (!cases) return cases.status();
  for (const std::size_t count : *counts) {
    for (AllReduceCase bench_case : *cases) {
      bench_case.count = count;
      bench.cases.push_back(std::move(bench_case));
    }
  }
  if (!request.tile.empty()) {
    const Expected<std::uint64_t> size = parse_size("--tile", request.tile);
    if (!size) return size.status();
    bench.tile_bytes = *size;
  }
  return bench;
}

}  // namespace nf::cli
