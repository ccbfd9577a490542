// Ranks as processes of one MPI job. In a build without MPI every function fails with kUnsupported.
//
// MPI cannot cancel a send, and a job that loses a rank is over: mpirun ends the other ranks too.
// After a failure, report it and exit. Open MPI 4.1 rejects a message that is longer than its
// receive buffer only up to its eager limit (a few KiB); beyond that it writes past the end of the
// buffer. Ranks must therefore agree on sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "neuron_fabric/transport.h"

namespace nf {

// This process's endpoint of the whole job, on a separate communicator, named "mpi". Collective:
// all ranks call it equally often. Initialises MPI if necessary and then finalises it when the
// process exits; if a transport has failed by then, aborts the job instead, so that no rank waits
// for this one.
Expected<std::unique_ptr<Transport>> make_mpi_transport();

// MPI's own collectives over the whole job, as a baseline for benchmarks. They block and need MPI
// to be initialised. The sum replaces the values; 16-bit values are added as integers, which costs
// as much as BF16.
Status mpi_all_reduce_floats(std::span<float> values);
Status mpi_all_reduce_16bit(std::span<std::uint16_t> values);
Status mpi_barrier();

}  // namespace nf
