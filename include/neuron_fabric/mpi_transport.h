// Ranks as processes of one MPI job. In a build without MPI everything here fails with
// kUnsupported.
//
// MPI has no way to take a send back, and a job whose rank is gone is over: whoever started the job
// (mpirun) ends the others, too. After a failure report it and exit. Open MPI 4.1 refuses a message
// that is too long for its receive only up to its eager limit (some KiB) and writes past the end
// beyond it: ranks must agree on sizes, here more than elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "neuron_fabric/transport.h"

namespace nf {

// This process's end of the whole job, on a communicator of its own, named "mpi". All ranks call
// it, equally often. Where MPI is not initialised yet it is from now on, and is finalised when the
// process exits; if a transport has failed by then, the job is aborted instead, so that no rank is
// left waiting for this one.
Expected<std::unique_ptr<Transport>> make_mpi_transport();

// The engine's own collectives over the whole job, to measure against. They block, and need MPI to
// be initialised. The sum replaces the values; 16-bit ones are added as integers, which costs what
// BF16 would.
Status mpi_all_reduce_floats(std::span<float> values);
Status mpi_all_reduce_16bit(std::span<std::uint16_t> values);
Status mpi_barrier();

}  // namespace nf
