// What `nf bench all_reduce` sums by over MPI and over NCCL: our all-reduce, or theirs.
#pragma once

#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"
#include "nf/bench/all_reduce_engine.h"

namespace nf::cli {

// Both borrow the bench and the transport, which is MPI's.
EngineMaker mpi_engines(Transport& transport, const AllReduceBench& bench);
// In device memory. All ranks call it; the transport only brings them together.
Expected<EngineMaker> nccl_engines(Transport& rendezvous, const AllReduceBench& bench);

}  // namespace nf::cli
