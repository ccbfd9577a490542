// The commands `nf bench all_reduce` and `nf bench reduce_scatter`.
#pragma once

#include "neuron_fabric/collective.h"
#include "nf/support/command.h"

namespace nf::cli {

void add_bench_collective(CLI::App& parent, Action& action, Collective collective);

}  // namespace nf::cli
