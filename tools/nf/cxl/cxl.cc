// nf cxl: the models of the memory-side reducer (docs/cxl.md).
#include "nf/cxl/run.h"
#include "nf/cxl/trace.h"
#include "nf/support/command.h"

namespace nf::cli {

void add_cxl(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("cxl", "simulate a reducer in a CXL memory controller");
  command->require_subcommand(1);
  add_cxl_run(*command, action);
  add_cxl_trace(*command, action);
  add_cxl_answers(*command, action);
}

}  // namespace nf::cli
