// Sub-commands written in Python. nf checks that they can run, then replaces itself with the
// interpreter (execvp) and passes the arguments on unchanged.
#pragma once

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::cli {

struct Helper {
  std::string_view name;    // the sub-command
  std::string_view module;  // "neuron_fabric.report"
  std::string_view summary = {};
  bool needs_torch = true;  // and the extension
};

// The helper with this name, or null.
const Helper* find_helper(std::string_view name);

// Replaces this process by `python -m <module> arguments...`. Returns only if that fails, with the
// missing requirement. `arguments` end with a null pointer, like those of main().
Status start_helper(const Helper& helper, const char* const* arguments);

}  // namespace nf::cli
