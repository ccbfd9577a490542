// Initialises and finalises MPI for this process.
#pragma once

#include <string>

#include "neuron_fabric/status.h"

namespace nf {

// Initialises MPI if necessary, and then finalises it at exit.
Status start_mpi();
// Whether MPI is initialised and not finalised, by this library or by the application.
bool mpi_is_running();
// Makes the process abort the job at exit instead of finalising MPI.
void mark_mpi_failed();

// MPI's description of an error code.
std::string mpi_error_text(int error);

}  // namespace nf
