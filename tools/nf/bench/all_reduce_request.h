// The options of `nf bench all_reduce` and `nf bench reduce_scatter`: as on the command line, as
// text for ranks in other processes, and as the list of cases to measure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/collective.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"

namespace nf::cli {

struct AllReduceRequest {
  std::string collective = "all_reduce";
  std::string begin = "1M";
  std::string end = "64M";
  std::uint64_t factor = 4;
  std::vector<std::string> codecs = {};  // empty: all
  std::vector<std::string> topologies = {"ring"};
  std::string transport = "inproc";
  std::uint32_t host_group_size = 0;
  std::string dtype = "fp32";
  int repeat = 20;
  std::string tile = {};  // empty: the library's default
  bool as_json = false;

  friend bool operator==(const AllReduceRequest&, const AllReduceRequest&) = default;
};

// One line of JSON, for parse_request().
std::string to_text(const AllReduceRequest& request);
// Missing keys have their default. Fails with kInvalidArgument if the text is malformed.
Expected<AllReduceRequest> parse_request(std::string_view text);

struct AllReduceCase {
  std::string codec;
  std::optional<Topology> topology;  // empty for a native all-reduce
  std::size_t count = 0;             // values per rank
};

// The work of all ranks.
struct AllReduceBench {
  Collective collective = Collective::kAllReduce;
  std::vector<AllReduceCase> cases;
  std::string transport;
  std::uint32_t host_group_size = 0;
  DataType type = DataType::kFloat32;
  int repeat = 1;
  std::optional<std::size_t> tile_bytes = {};  // size of a message; empty: the library's default
  bool as_json = false;
};

// Fails if a size, a topology or the native all-reduce of another transport is invalid, or if the
// collective does not support it. Unknown
// codecs fail later, when their engine is created.
Expected<AllReduceBench> make_bench(const AllReduceRequest& request);

inline constexpr std::array<std::string_view, 4> kBenchTransports = {"inproc", "mpi", "c10d",
                                                                     "nccl"};

// Native all-reduces: those of MPI, NCCL and c10d themselves, for comparison. --codec accepts their
// names. They sum FP32 or BF16 values, or as many 16-bit integers (MPI).
inline constexpr std::string_view kMpiFp32 = "mpi_fp32";
inline constexpr std::string_view kMpi16bit = "mpi_16bit";
inline constexpr std::string_view kNcclFp32 = "nccl_fp32";
inline constexpr std::string_view kNcclBf16 = "nccl_bf16";
inline constexpr std::string_view kC10dFp32 = "c10d_fp32";
inline constexpr std::string_view kC10dBf16 = "c10d_bf16";
// The names of the native all-reduces of a transport.
std::vector<std::string_view> native_all_reduces(std::string_view transport);

}  // namespace nf::cli
