// The device side of `nf bench all_reduce --transport nccl`: all-reduces in device memory, this
// library's over NCCL and ncclAllReduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"
#include "nf/bench/all_reduce_request.h"

namespace nf::cli {

// Whether this build has NCCL.
extern const bool kHasNccl;

// One rank's communicator. Devices are assigned to ranks round-robin. If ranks share a device, each
// rank gets its own host ID, so that NCCL connects them by sockets.
class NcclBench {
 public:
  // Collective over the ranks of `rendezvous`. Fails with kUnsupported if the build has no NCCL or
  // the host has no device.
  static Expected<std::shared_ptr<NcclBench>> create(Transport& rendezvous);
  virtual ~NcclBench() = default;

  // Selects the all-reduce of the next sums: ncclAllReduce if the case has no topology.
  virtual Status choose(const AllReduceCase& bench_case, const AllReduceBench& bench) = 0;
  // Copy the values to the device, sum them, and copy them back. All three wait for the device.
  virtual Status load(ConstValues values) = 0;
  virtual Status sum(std::uint64_t step, std::size_t rows) = 0;
  virtual Status store(Values values) = 0;
  // Bytes so far; empty for ncclAllReduce.
  virtual std::optional<std::uint64_t> bytes_sent() const = 0;
};

}  // namespace nf::cli
