// This process as a part of an MPI job: its beginning and its end.
#pragma once

#include <string>

#include "neuron_fabric/status.h"

namespace nf {

// Initialises MPI unless somebody has, and then sees to its end at exit.
Status start_mpi();
// Between its initialisation and its finalisation, by whomever.
bool mpi_is_running();
// From now on the job is aborted where it would have been finalised.
void mpi_has_failed();

// MPI's words for one of its error codes.
std::string mpi_text(int error);

}  // namespace nf
