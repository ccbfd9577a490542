// The Python that nf's helpers run in, and what is installed there. Nothing here imports PyTorch,
// which takes seconds.
#pragma once

#include <string>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::cli {

// NF_PYTHON where it is set, the python3 beside this program where there is one, else python3.
std::string python_program();

struct PythonPackages {
  std::string python;          // its version
  bool is_recent = false;      // Python 3.11 or newer
  std::string torch;           // its version, empty where there is none
  std::string neuron_fabric;   // the package's folder, empty where there is none
  bool has_extension = false;  // neuron_fabric._C
  bool has_module = false;     // the one asked for
};

// What `program` has. Fails where it does not run.
Expected<PythonPackages> python_packages(const std::string& program, std::string_view module);

}  // namespace nf::cli
