// What `nf replay` is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"
#include "nf/support/command.h"

namespace nf::cli {

struct ReplayOptions {
  std::string trace;
  std::string reducer = "cxl";
  std::string codec = "g_binary";
  std::vector<std::uint32_t> workers;
  std::vector<double> gbps = {100};
  double latency_us = 5;
  double clock_ghz = 2;
  std::string order = "in_step";
  std::vector<std::string> of_cxl;  // options that were given and that only cxl has
  bool is_measured = false;
  std::string profile;
  std::string write_profile;
  bool as_json = false;
};

// Filled in as the command line is read.
std::shared_ptr<ReplayOptions> add_replay_options(CLI::App& command);

// Whether they go together.
Status check(const ReplayOptions& options);

}  // namespace nf::cli
