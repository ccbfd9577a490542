// The Python interpreter of the helpers, and its installed packages. Nothing here imports PyTorch,
// which takes seconds.
#pragma once

#include <string>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::cli {

// $NF_PYTHON if it is set, otherwise the python3 next to this program if it exists, otherwise
// "python3".
std::string python_program();

struct PythonPackages {
  std::string python;          // version
  bool is_recent = false;      // Python 3.11 or newer
  std::string torch;           // version; empty if not installed
  std::string neuron_fabric;   // directory of the package; empty if not installed
  bool has_extension = false;  // neuron_fabric._C
  bool has_module = false;     // the requested module
};

// The packages of the interpreter `program`. Fails if it does not run.
Expected<PythonPackages> python_packages(const std::string& program, std::string_view module);

}  // namespace nf::cli
