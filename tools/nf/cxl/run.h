// nf cxl run: the overhead of the reducer's datapath in the cycle-level model.
#pragma once

#include "nf/support/command.h"

namespace nf::cli {

void add_cxl_run(CLI::App& parent, Action& action);

}  // namespace nf::cli
