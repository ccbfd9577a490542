#include "nf/cxl/trace.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cxl/traffic.h"
#include "nf/support/numbers.h"
#include "nf/support/usage.h"
#include "runtime/text_file.h"

namespace nf::cli {
namespace {

constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 30;
constexpr std::uint32_t kMaxLines = 1'000'000;

struct TraceOptions {
  std::string mode = "g_binary";
  cxl::TrafficOptions traffic;
};

Status print_random_trace(const TraceOptions& options) {
  cxl::TrafficOptions traffic = options.traffic;
  traffic.mode = *cxl::find_mode(options.mode);
  if (const std::uint64_t lines = cxl::max_lines(traffic); lines > cxl::kMaxTraceLines) {
    return {
        ErrorCode::kBadConfig,
        fmt::format("--workers {}, --lines {} and --rounds {} make a trace of up to {} lines; the "
                    "limit is {}: reduce --lines",
                    traffic.workers, traffic.lines, traffic.rounds, lines, cxl::kMaxTraceLines)};
  }
  fmt::print("{}", cxl::print_trace(cxl::random_traffic(traffic)));
  return {};
}

Status print_answers_of(const std::string& path) {
  const Expected<std::string> text = read_text_file(path, kMaxTraceBytes);
  if (!text) return text.status();
  const Expected<cxl::Trace> trace = cxl::parse_trace(*text, path);
  if (!trace) return trace.status();
  fmt::print("{}", cxl::print_answers(cxl::run_trace(*trace)));
  return {};
}

}  // namespace

void add_cxl_trace(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("trace", "print a trace of random traffic");
  auto options = std::make_shared<TraceOptions>();
  cxl::TrafficOptions& traffic = options->traffic;
  add_choice(*command, "--mode", options->mode, names_of(cxl::kModes), "mode of the region");
  const auto add_percent = [command](const char* name, std::uint32_t& number,
                                     const char* description) {
    add_number(*command, name, number, {.min = 0, .max = 99}, description);
  };
  add_number(*command, "--workers", traffic.workers, {.min = 1, .max = 64}, "workers that write");
  add_number(*command, "--lines", traffic.lines, {.min = 1, .max = kMaxLines}, "lines per worker");
  add_number(*command, "--rounds", traffic.rounds, {.min = 1, .max = 1000},
             "rounds over all lines, with a clear in between");
  add_percent("--idle", traffic.idle_percent, "% of cycles without a request");
  add_percent("--busy", traffic.busy_percent, "% of cycles with a busy receiver");
  add_percent("--faults", traffic.fault_percent, "% of requests that are rejected");
  add_number(*command, "--seed", traffic.seed, {}, "seed of the random numbers");
  command->callback(
      [&action, options] { action = [options] { return print_random_trace(*options); }; });
}

void add_cxl_answers(CLI::App& parent, Action& action) {
  auto* command =
      parent.add_subcommand("answers", "print the model's answers to a trace, with their cycles");
  auto path = std::make_shared<std::string>();
  command->add_option("trace", *path, "a trace; docs/cxl.md describes the format")
      ->required()
      ->type_name("TRACE");
  command->callback([&action, path] { action = [path] { return print_answers_of(*path); }; });
}

}  // namespace nf::cli
