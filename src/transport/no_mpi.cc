// The symbols of mpi_transport.cc for a build without MPI.
#include "neuron_fabric/mpi_transport.h"

namespace nf {
namespace {

Status no_mpi() {
  return {ErrorCode::kUnsupported,
          "this build has no MPI; install libopenmpi-dev and openmpi-bin and rebuild"};
}

}  // namespace

Expected<std::unique_ptr<Transport>> make_mpi_transport() { return no_mpi(); }

Status mpi_all_reduce_floats(std::span<float> /*values*/) { return no_mpi(); }

Status mpi_all_reduce_16bit(std::span<std::uint16_t> /*values*/) { return no_mpi(); }

Status mpi_barrier() { return no_mpi(); }

}  // namespace nf
