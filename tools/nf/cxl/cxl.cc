// nf cxl: the memory-side reducer, by its models (docs/cxl.md).
#include "nf/cxl/run.h"
#include "nf/cxl/trace.h"
#include "nf/support/command.h"

namespace nf::cli {

void add_cxl(CLI::App& parent, Action& action) {
  auto* command =
      parent.add_subcommand("cxl", "a reducer inside a CXL memory controller, modelled");
  command->require_subcommand(1);
  add_cxl_run(*command, action);
  add_cxl_trace(*command, action);
  add_cxl_answers(*command, action);
}

}  // namespace nf::cli
