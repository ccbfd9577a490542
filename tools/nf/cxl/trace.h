// nf cxl trace, nf cxl answers: the inputs and expected outputs for comparing the RTL with the
// model.
#pragma once

#include "nf/support/command.h"

namespace nf::cli {

void add_cxl_trace(CLI::App& parent, Action& action);
void add_cxl_answers(CLI::App& parent, Action& action);

}  // namespace nf::cli
