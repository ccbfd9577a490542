// What is asked of `nf bench all_reduce`: as the command line says it, as ranks in other processes
// are told, and as the cases to measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"

namespace nf::cli {

struct AllReduceRequest {
  std::string begin = "1M";
  std::string end = "64M";
  std::uint64_t factor = 4;
  std::vector<std::string> codecs = {};  // none for all
  std::vector<std::string> topologies = {"ring"};
  std::string transport = "inproc";
  std::uint32_t host_group_size = 0;
  std::string dtype = "fp32";
  int repeat = 20;
  std::string tile = {};  // empty for the library's own
  bool as_json = false;

  friend bool operator==(const AllReduceRequest&, const AllReduceRequest&) = default;
};

// A line that parse_request() reads.
std::string to_text(const AllReduceRequest& request);
// What the text leaves out is as by default. Fails where it is no request.
Expected<AllReduceRequest> parse_request(std::string_view text);

struct AllReduceCase {
  std::string codec;
  std::optional<Topology> topology;  // none of an all-reduce that is not ours
  std::size_t count = 0;             // of values a rank
};

// What all ranks do.
struct AllReduceBench {
  std::vector<AllReduceCase> cases;
  std::string transport;
  std::uint32_t host_group_size = 0;
  DataType type = DataType::kFloat32;
  int repeat = 1;
  std::optional<std::size_t> tile_bytes = {};  // of a message; otherwise the library's own
  bool as_json = false;
};

// Fails where sizes, topologies or what stands among the codecs cannot be. Codecs are judged where
// they are made.
Expected<AllReduceBench> make_bench(const AllReduceRequest& request);

// The all-reduces that transports have of their own, to compare with, as --codec names them: of
// FP32 values, of BF16 ones, and MPI's of as many 16-bit integers.
inline constexpr std::string_view kMpiFp32 = "mpi_fp32";
inline constexpr std::string_view kMpi16bit = "mpi_16bit";
inline constexpr std::string_view kNcclFp32 = "nccl_fp32";
inline constexpr std::string_view kNcclBf16 = "nccl_bf16";
inline constexpr std::string_view kC10dFp32 = "c10d_fp32";
inline constexpr std::string_view kC10dBf16 = "c10d_bf16";

}  // namespace nf::cli
