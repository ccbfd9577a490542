// The device side of `nf bench all_reduce --transport nccl`: sums in device memory over NCCL, ours
// and NCCL's own.
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

// One rank's communicator. Ranks take devices in turn; several may share one, each then as a host
// of its own, so that NCCL joins them by sockets.
class NcclBench {
 public:
  // All ranks of `rendezvous` call it; it serves to bring them together. Fails with kUnsupported
  // where this build has no NCCL or this machine no device.
  static Expected<std::shared_ptr<NcclBench>> create(Transport& rendezvous);
  virtual ~NcclBench() = default;

  // What the next sums are made by: NCCL itself where the case has no topology.
  virtual Status choose(const AllReduceCase& subject, const AllReduceBench& bench) = 0;
  // Values come to the device, are summed, and come back. The first and the last wait for the
  // device, and so does the sum.
  virtual Status load(ConstValues values) = 0;
  virtual Status sum(std::uint64_t step, std::size_t rows) = 0;
  virtual Status store(Values values) = 0;
  // So far; nothing of NCCL itself.
  virtual std::optional<std::uint64_t> bytes_sent() const = 0;
};

}  // namespace nf::cli
