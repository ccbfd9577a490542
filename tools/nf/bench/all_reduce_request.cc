#include "nf/bench/all_reduce_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "neuron_fabric/codec.h"

namespace nf::cli {

// The names in the text.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AllReduceRequest, begin, end, factor, codecs,
                                                topologies, transport, host_group_size, dtype,
                                                repeat, tile, as_json)

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 34;

struct OwnSum {
  std::string_view name;
  std::string_view transport;
  std::string_view what;
};

constexpr std::array kOwnSums{
    OwnSum{kMpiFp32, "mpi", "MPI_Allreduce"},
    OwnSum{kMpi16bit, "mpi", "MPI_Allreduce"},
    OwnSum{kNcclFp32, "nccl", "NCCL"},
    OwnSum{kNcclBf16, "nccl", "NCCL"},
    OwnSum{kC10dFp32, "c10d", "torch.distributed.all_reduce"},
    OwnSum{kC10dBf16, "c10d", "torch.distributed.all_reduce"},
};

// "64M": bytes, with K, M and G as powers of two.
Expected<std::uint64_t> parse_size(std::string_view option, std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t place = unit.size() == 1 ? kUnits.find(unit) : std::string_view::npos;
  const std::size_t shift = unit.empty() ? 0 : 10 * (place + 1);
  const bool is_size = error == std::errc() && (unit.empty() || place != std::string_view::npos);
  if (!is_size || number > kMostBytes >> shift || number << shift < sizeof(float)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: '{}' is not a size in bytes from 4 to 16G, as 4096, 64K or 1M",
                              option, text));
  }
  return number << shift;
}

// Values a rank, of each size.
Expected<std::vector<std::size_t>> counts_of(const AllReduceRequest& request) {
  const Expected<std::uint64_t> begin = parse_size("-b", request.begin);
  if (!begin) return begin.status();
  const Expected<std::uint64_t> end = parse_size("-e", request.end);
  if (!end) return end.status();
  if (*begin > *end) {
    return Status(ErrorCode::kBadConfig, fmt::format("sizes from {} (-b) to {} (-e) are none",
                                                     request.begin, request.end));
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
                    "hierarchical needs the number of ranks per host (--host-group)");
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

// Where it is a codec, its one spelling.
std::string spelling_of(const std::string& text) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(text);
  return codec ? (*codec)->spec().to_string() : text;
}

// Of one size: each codec along each topology, and what is not ours once.
Expected<std::vector<AllReduceCase>> kinds_of(const AllReduceRequest& request) {
  const Expected<std::vector<Topology>> topologies = topologies_of(request);
  if (!topologies) return topologies.status();
  std::vector<std::string> codecs = request.codecs;
  if (codecs.empty()) {
    for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  }
  std::vector<AllReduceCase> kinds;
  for (const std::string& codec : codecs) {
    const auto* const own = std::ranges::find(kOwnSums, codec, &OwnSum::name);
    if (own == kOwnSums.end()) {
      for (const Topology topology : *topologies) {
        kinds.push_back({.codec = spelling_of(codec), .topology = topology});
      }
    } else if (own->transport == request.transport) {
      kinds.push_back({.codec = codec, .topology = {}});
    } else {
      return Status(ErrorCode::kBadConfig, fmt::format("'{}' is {} itself and needs --transport {}",
                                                       codec, own->what, own->transport));
    }
  }
  return kinds;
}

}  // namespace

std::string to_text(const AllReduceRequest& request) { return nlohmann::json(request).dump(); }

Expected<AllReduceRequest> parse_request(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<AllReduceRequest>();
  } catch (const nlohmann::json::exception& error) {
    return Status(ErrorCode::kInvalidArgument, error.what());
  }
}

Expected<AllReduceBench> make_bench(const AllReduceRequest& request) {
  AllReduceBench bench{.cases = {},
                       .transport = request.transport,
                       .host_group_size = request.host_group_size,
                       .type = request.dtype == "bf16" ? DataType::kBfloat16 : DataType::kFloat32,
                       .repeat = request.repeat,
                       .as_json = request.as_json};
  const Expected<std::vector<std::size_t>> counts = counts_of(request);
  if (!counts) return counts.status();
  const Expected<std::vector<AllReduceCase>> kinds = kinds_of(request);
  if (!kinds) return kinds.status();
  for (const std::size_t count : *counts) {
    for (AllReduceCase subject : *kinds) {
      subject.count = count;
      bench.cases.push_back(std::move(subject));
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
