// The engines of `nf bench all_reduce` over MPI and NCCL: this library's all-reduce, or the native
// one.
#pragma once

#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"
#include "nf/bench/all_reduce_engine.h"

namespace nf::cli {

// Both functions take the MPI transport. They borrow it and the bench.
EngineFactory mpi_engines(Transport& transport, const AllReduceBench& bench);
// Sums in device memory. Collective; MPI is used for the rendezvous only.
Expected<EngineFactory> nccl_engines(Transport& rendezvous, const AllReduceBench& bench);

}  // namespace nf::cli
