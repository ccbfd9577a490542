// Sub-commands that live in the Python package. nf starts them the way git starts its helpers: it
// sees that they can run, then becomes the interpreter, with the user's arguments as they are.
#pragma once

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::cli {

struct Helper {
  std::string_view name;  // of the sub-command
  std::string_view summary = {};
  bool needs_torch = true;         // and the extension
  std::string_view module = name;  // in neuron_fabric
};

// The helper of this name; null where there is none.
const Helper* find_helper(std::string_view name);

// Becomes `python -m neuron_fabric.<module> arguments...` and so returns only where that cannot be,
// with what is missing. `arguments` end in a null pointer, as those of main() do.
Status start_helper(const Helper& helper, const char* const* arguments);

}  // namespace nf::cli
