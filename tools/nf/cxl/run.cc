#include "nf/cxl/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cxl/run.h"
#include "nf/profile/text.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMostLines = 1'000'000;
constexpr std::uint32_t kHighPressure = 128;
constexpr std::uint32_t kMostOutstanding = 1024;
constexpr std::uint32_t kMostWorkers = 64;

struct Options {
  std::string mode = "g_binary";
  std::uint32_t workers = 8;
  std::uint32_t lines = 16'384;
  std::vector<double> miss = {1};
  std::string pressure = "low";
  std::vector<std::uint32_t> outstanding;
  std::string order = "apart";
  std::vector<double> clocks = {2};
  double latency_ns = 150;
  unsigned stages = 5;
  unsigned repeat = 4;
  std::uint64_t seed = 1;
  bool as_json = false;
};

struct Row {
  cxl::RunOptions options;
  cxl::RunResult result;
};

Expected<std::vector<cxl::RunOptions>> cases_of(const Options& options) {
  cxl::RunOptions one;
  one.workload = {
      .mode = *cxl::find_mode(options.mode),
      .workers = options.workers,
      .lines = options.lines,
      .order = options.order == "in_step" ? cxl::WriteOrder::kInStep : cxl::WriteOrder::kApart,
      .seed = options.seed};
  one.timing.access_latency = static_cast<cxl::Picoseconds>(std::llround(options.latency_ns * 1e3));
  one.timing.stages = options.stages;
  one.repeats = options.repeat;
  if (one.timing.one_way() < 0) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("--latency-ns {}: the memory and the link's own time take more",
                              options.latency_ns));
  }
  std::vector<std::uint32_t> outstanding = options.outstanding;
  if (outstanding.empty()) outstanding = {options.pressure == "high" ? kHighPressure : 1};
  std::vector<cxl::RunOptions> cases;
  for (const double clock : options.clocks) {
    for (const double miss : options.miss) {
      for (const std::uint32_t count : outstanding) {
        cases.push_back(one);
        cases.back().timing.clock_ghz = clock;
        cases.back().timing.queue = std::max(one.timing.queue, count);
        cases.back().host = {.miss_rate = miss, .outstanding = count, .seed = options.seed};
      }
    }
  }
  return cases;
}

void print_json(const Options& options, const Row& row) {
  const cxl::RunResult& result = row.result;
  const nlohmann::ordered_json json{
      {"mode", options.mode},
      {"workers", options.workers},
      {"lines", options.lines},
      {"clock_ghz", row.options.timing.clock_ghz},
      {"cycles", std::llround(result.cycles)},
      {"baseline_cycles", std::llround(result.baseline_cycles)},
      {"dram_bytes", result.dram_bytes},
      {"exposed_overhead", result.exposed_overhead()},
      {"formula_overhead", result.formula.overhead()},
      {"deviation", result.deviation()},
      {"correct", result.correct},
      {"llc_miss", row.options.host.miss_rate},
      {"outstanding", row.options.host.outstanding},
      {"order", options.order},
      {"latency_ns", options.latency_ns},
      {"stages", options.stages},
      {"requests", result.requests},
      {"formula_cycles", std::llround(result.formula.cycles)},
      {"bound", result.formula.is_latency_bound ? "latency" : "service"},
      {"lines_per_second", static_cast<double>(result.simulated) / result.seconds},
      {"functional_lines_per_second",
       static_cast<double>(result.requests) / result.functional_seconds}};
  fmt::print("{}\n", json.dump());
}

void print_title(const Options& options) {
  fmt::print(
      "{}, {} workers, {} lines each, {} stages; a line takes {} ns, nothing else going on; "
      "modelled\n"
      "miss        of the last-level cache: a miss waits for its answer\n"
      "at a time   accesses of all hosts together\n"
      "cycles      of the controller, until the hosts have all answers; mean of {}\n"
      "baseline    the same requests and memory traffic, a datapath that takes no time\n"
      "exposed     what the datapath adds to the baseline; beside it the closed formula's\n"
      "deviation   of the two, relative; their difference where the formula's is below 0.1 %\n"
      "correct     every answer, by the codec\n"
      "\n",
      options.mode, options.workers, grouped(options.lines), options.stages, options.latency_ns,
      counted(options.repeat, "run"));
}

Table new_table() {
  return Table({{.title = "GHz", .least = 5},
                {.title = "miss", .least = 5},
                {.title = "at a time", .least = 9},
                {.title = "cycles", .least = 13},
                {.title = "baseline", .least = 13},
                {.title = "DRAM MB", .least = 8},
                {.title = "exposed", .least = 9},
                {.title = "formula", .least = 9},
                {.title = "deviation", .least = 9},
                {.title = "bound", .is_text = true, .least = 7},
                {.title = "correct", .is_text = true}});
}

void print_row(Table& table, const Row& row) {
  const cxl::RunResult& result = row.result;
  const auto percent = [](double share) { return fmt::format("{:.3f} %", 100 * share); };
  table.add({fmt::format("{:g}", row.options.timing.clock_ghz),
             fmt::format("{:g}", row.options.host.miss_rate),
             fmt::format("{}", row.options.host.outstanding),
             grouped(static_cast<std::uint64_t>(std::llround(result.cycles))),
             grouped(static_cast<std::uint64_t>(std::llround(result.baseline_cycles))),
             fmt::format("{:.1f}", static_cast<double>(result.dram_bytes) / 1e6),
             percent(result.exposed_overhead()), percent(result.formula.overhead()),
             percent(result.deviation()), result.formula.is_latency_bound ? "latency" : "service",
             result.correct ? "yes" : "NO"});
  fmt::print("{}", table.text());
}

Status run(const Options& options) {
  const Expected<std::vector<cxl::RunOptions>> cases = cases_of(options);
  if (!cases) return cases.status();
  Progress progress(cases->size());
  Table table = new_table();
  if (!options.as_json) print_title(options);
  bool is_correct = true;
  for (const cxl::RunOptions& one : *cases) {
    progress.step();
    progress.show(fmt::format("{} accesses at a time, miss rate {:g}", one.host.outstanding,
                              one.host.miss_rate));
    const Expected<cxl::RunResult> result = cxl::run(one);
    if (!result) return result.status();
    progress.clear();
    const Row row{.options = one, .result = *result};
    if (options.as_json) {
      print_json(options, row);
    } else {
      print_row(table, row);
    }
    is_correct = is_correct && result->correct;
  }
  if (is_correct) return {};
  return {ErrorCode::kCorruptFrame, "the model gave wrong sums"};
}

}  // namespace

void add_cxl_run(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("run", "what the datapath of the reducer costs");
  auto options = std::make_shared<Options>();
  const auto add_choice = [command](const char* name, std::string& choice,
                                    std::vector<std::string> choices, const char* what) {
    command->add_option(name, choice, what)
        ->type_name(fmt::format("{}", fmt::join(choices, "|")))
        ->check(CLI::IsMember(choices).description(""))
        ->capture_default_str();
  };
  const auto add_number = [command](const char* name, auto& number, auto least, auto most,
                                    const char* what) {
    return command->add_option(name, number, what)
        ->type_name("N")
        ->check(CLI::Range(least, most).description(""))
        ->capture_default_str();
  };
  add_choice("--mode", options->mode, {"identity", "fp32", "g_binary", "g_ternary"},
             "of the region");
  add_number("--workers", options->workers, std::uint32_t{1}, kMostWorkers, "that write");
  add_number("--lines", options->lines, std::uint32_t{1}, kMostLines,
             "gradient lines of every worker");
  add_number("--llc-miss", options->miss, 0.0, 1.0, "miss rates of the last-level cache")
      ->type_name("R,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_choice("--pressure", options->pressure, {"low", "high"},
             "low: one access at a time; high: 128");
  add_number("--outstanding", options->outstanding, std::uint32_t{1}, kMostOutstanding,
             "accesses at a time, instead of --pressure; above 128 the queue grows with them")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_choice("--order", options->order, {"apart", "in_step"},
             "workers write different lines at a time, or the same");
  add_number("--clock-ghz", options->clocks, 0.001, 100.0, "clocks of the controller")
      ->type_name("X,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_number("--latency-ns", options->latency_ns, 1.0, 1e6, "of a line, nothing else going on")
      ->type_name("X");
  add_number("--stages", options->stages, 1u, 64u, "of the datapath");
  add_number("--repeat", options->repeat, 1u, 1000u, "runs of each, refreshes falling otherwise");
  command->add_option("--seed", options->seed, "of all that is random")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "one JSON object a line instead of a table");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
