// Registration of sub-commands. Each add_* function adds a command to the parser; if the user
// selects the command, it sets `action`. main() runs the action and turns its Status into an exit
// code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "neuron_fabric/status.h"

namespace nf::cli {

using Action = std::function<Status()>;

void add_info(CLI::App& parent, Action& action);
void add_bench(CLI::App& parent, Action& action);
void add_cxl(CLI::App& parent, Action& action);
void add_plan(CLI::App& parent, Action& action);
void add_profile(CLI::App& parent, Action& action);
void add_quality(CLI::App& parent, Action& action);
void add_replay(CLI::App& parent, Action& action);
// Lists the helpers in the help. main() starts them before it parses the command line.
void add_helpers(CLI::App& parent);
void add_help(CLI::App& parent, Action& action);

}  // namespace nf::cli
