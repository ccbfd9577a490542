// The options of `nf replay`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"
#include "nf/support/command.h"

namespace nf::cli {

// If neither the command line nor the trace has a number of workers.
inline constexpr std::uint32_t kDefaultWorkers = 8;

struct ReplayOptions {
  std::string trace;
  std::string reducer = "cxl";
  std::string codec = "g_binary";
  std::vector<std::uint32_t> workers;
  std::vector<double> gbps = {100};
  double latency_us = 5;
  double clock_ghz = 1;
  std::string order = "in_step";
  std::vector<std::string> cxl_options;  // given options that only --reducer cxl supports
  bool is_measured = false;
  std::string profile;
  std::string write_profile;
  bool as_json = false;
};

// Adds the options; parsing the command line fills in the result.
std::shared_ptr<ReplayOptions> add_replay_options(CLI::App& command);

// Fails if the options contradict each other.
Status check(const ReplayOptions& options);

}  // namespace nf::cli
