// How long an all-reduce takes, how much it sends, and how far its result is from the exact sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/transport.h"
#include "nf/progress.h"

namespace nf::cli {

// MPI_Allreduce itself, to compare with: of FP32 values, and of as many 16-bit integers.
inline constexpr std::string_view kMpiFp32 = "mpi_fp32";
inline constexpr std::string_view kMpi16bit = "mpi_16bit";

constexpr bool is_mpi_itself(std::string_view codec) {
  return codec == kMpiFp32 || codec == kMpi16bit;
}

struct AllReduceCase {
  std::string codec;
  std::optional<Topology> topology;  // none of MPI_Allreduce
  std::size_t count = 0;             // of values a rank
};

// What all ranks do.
struct AllReduceBench {
  std::vector<AllReduceCase> cases;
  std::uint32_t group = 0;
  DataType type = DataType::kFloat32;
  int repeat = 1;
  bool is_on_device = false;  // over NCCL; the transport then only brings the ranks together
  std::optional<std::size_t> tile_bytes = {};  // of a message; otherwise the library's own
};

struct AllReduceSpeed {
  AllReduceCase subject;
  std::uint32_t ranks = 1;
  std::string_view dtype = {};  // of what was summed; MPI's and NCCL's own have theirs
  // By call, of the slowest rank.
  std::vector<double> seconds = {};
  // By the busiest rank, in one call; MPI_Allreduce does not tell.
  std::optional<std::uint64_t> wire_bytes = {};
  // Of the first call's result; none of integers.
  std::optional<double> vnmse = {};
  // Elements that differ between ranks, over all calls; where sums must be exact also those that
  // differ from the exact sum of whole numbers.
  std::uint64_t wrong = 0;
};

// Who reads the results: on rank 0.
struct AllReduceReader {
  Progress& progress;
  std::function<void(const AllReduceSpeed&)> take;
};

// One rank's part; all ranks call it with the same bench. `reader` is null but on rank 0. Every
// case is tried out before the first is measured, so that one that cannot be fails at once.
Status run_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                            AllReduceReader* reader);

}  // namespace nf::cli
