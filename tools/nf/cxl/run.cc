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
#include "nf/support/numbers.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMaxLines = 1'000'000;
constexpr std::uint64_t kMaxWrites = std::uint64_t{1} << 22;  // bounds memory: about 320 bytes each
constexpr std::uint32_t kHighPressure = 128;
constexpr std::uint32_t kMaxOutstanding = 1024;
constexpr std::uint32_t kMaxWorkers = 64;

struct Options {
  std::string mode = "g_binary";
  std::uint32_t workers = 8;
  std::uint32_t lines = 16'384;
  std::vector<double> miss = {1};
  std::string pressure = "low";
  std::vector<std::uint32_t> outstanding;
  std::string order = "apart";
  std::vector<double> clocks = {1};
  std::vector<double> latencies = {150, 300};
  unsigned stages = 5;
  unsigned repeat = 4;
  std::uint64_t seed = 1;
  bool as_json = false;
};

struct Row {
  cxl::RunOptions options;
  cxl::RunResult result;
};

double nanoseconds(cxl::Picoseconds time) { return static_cast<double>(time) / 1e3; }

Expected<std::vector<cxl::RunOptions>> cases_of(const Options& options) {
  cxl::RunOptions one;
  one.workload = {
      .mode = *cxl::find_mode(options.mode),
      .workers = options.workers,
      .lines = options.lines,
      .order = options.order == "in_step" ? cxl::WriteOrder::kInStep : cxl::WriteOrder::kApart,
      .seed = options.seed};
  one.timing.stages = options.stages;
  one.repeats = options.repeat;
  if (std::uint64_t{options.workers} * options.lines > kMaxWrites) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("--workers {} and --lines {} exceed {} written lines, the limit "
                              "of a simulation: reduce --lines",
                              options.workers, options.lines, kMaxWrites));
  }
  std::vector<std::uint32_t> outstanding = options.outstanding;
  if (outstanding.empty()) outstanding = {options.pressure == "high" ? kHighPressure : 1};
  std::vector<cxl::RunOptions> cases;
  for (const double clock : options.clocks) {
    one.timing.clock_ghz = clock;
    for (const double latency : options.latencies) {
      one.timing.access_latency = static_cast<cxl::Picoseconds>(std::llround(latency * 1e3));
      if (one.timing.one_way() < 0) {
        return Status(
            ErrorCode::kBadConfig,
            fmt::format("--latency-ns {} is less than the time of memory and link alone", latency));
      }
      for (const double miss : options.miss) {
        for (const std::uint32_t count : outstanding) {
          cases.push_back(one);
          cases.back().timing.queue = std::max(one.timing.queue, count);
          cases.back().host = {.miss_rate = miss, .outstanding = count, .seed = options.seed};
        }
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
      {"latency_ns", nanoseconds(row.options.timing.access_latency)},
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
      "{}, {} workers, {} lines per worker, {} stages; simulated\n"
      "ns           idle latency of a line\n"
      "miss         miss rate of the last-level cache; a miss waits for its answer\n"
      "outstanding  accesses in flight, of all hosts together\n"
      "cycles       of the controller, until the hosts have all answers; mean of {}\n"
      "baseline     cycles for the same requests and memory traffic with an ideal datapath\n"
      "exposed      overhead of the datapath over the baseline; next to it the closed formula\n"
      "deviation    of exposed from formula: relative, or absolute if formula is below 0.1 %\n"
      "correct      whether every answer matches the codec\n"
      "\n",
      options.mode, options.workers, grouped(options.lines), options.stages,
      counted(options.repeat, "run"));
}

Table new_table() {
  return Table({{.title = "GHz", .min_width = 5},
                {.title = "ns", .min_width = 4},
                {.title = "miss", .min_width = 5},
                {.title = "outstanding", .min_width = 11},
                {.title = "cycles", .min_width = 13},
                {.title = "baseline", .min_width = 13},
                {.title = "DRAM MB", .min_width = 8},
                {.title = "exposed", .min_width = 9},
                {.title = "formula", .min_width = 9},
                {.title = "deviation", .min_width = 9},
                {.title = "bound", .is_text = true, .min_width = 7},
                {.title = "correct", .is_text = true}});
}

void print_row(Table& table, const Row& row) {
  const cxl::RunResult& result = row.result;
  const auto percent = [](double share) { return fmt::format("{:.3f} %", 100 * share); };
  table.add({fmt::format("{:g}", row.options.timing.clock_ghz),
             fmt::format("{:g}", nanoseconds(row.options.timing.access_latency)),
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
    progress.show(fmt::format("{} outstanding accesses, miss rate {:g}", one.host.outstanding,
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
  return {ErrorCode::kCorruptFrame, "the model returned wrong sums"};
}

}  // namespace

void add_cxl_run(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("run", "measure the overhead of the datapath");
  auto options = std::make_shared<Options>();
  add_choice(*command, "--mode", options->mode, names_of(cxl::kModes), "mode of the region");
  add_number(*command, "--workers", options->workers, {.min = 1, .max = kMaxWorkers},
             "workers that write");
  add_number(*command, "--lines", options->lines, {.min = 1, .max = kMaxLines},
             "gradient lines per worker");
  add_numbers(*command, "--llc-miss", options->miss, {.min = 0, .max = 1},
              "miss rates of the last-level cache")
      ->type_name("R,...");
  add_choice(*command, "--pressure", options->pressure, {"low", "high"},
             fmt::format("low: 1 outstanding access; high: {}", kHighPressure));
  add_numbers(*command, "--outstanding", options->outstanding, {.min = 1, .max = kMaxOutstanding},
              "outstanding accesses, instead of --pressure; above 128, the queue grows, too");
  add_choice(*command, "--order", options->order, {"apart", "in_step"},
             "apart: workers write different lines at the same time; in_step: the same line");
  add_numbers(*command, "--clock-ghz", options->clocks, {.min = 0.001, .max = 100},
              "clock rates of the controller");
  add_numbers(*command, "--latency-ns", options->latencies, {.min = 1, .max = 1e6},
              "idle latencies of a line");
  add_number(*command, "--stages", options->stages, {.min = 1, .max = 64},
             "pipeline stages of the datapath");
  add_number(*command, "--repeat", options->repeat, {.min = 1, .max = 1000},
             "runs per row, with shifted DRAM refreshes");
  add_number(*command, "--seed", options->seed, {}, "seed of the random numbers");
  add_json_flag(*command, options->as_json);
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
