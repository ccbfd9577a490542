// The command `nf bench all_reduce`.
#pragma once

#include "nf/support/command.h"

namespace nf::cli {

void add_bench_all_reduce(CLI::App& parent, Action& action);

}  // namespace nf::cli
