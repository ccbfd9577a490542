#include "nf/cxl/trace.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cxl/traffic.h"
#include "runtime/text_file.h"

namespace nf::cli {
namespace {

constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30;
constexpr std::uint32_t kMostLines = 1'000'000;

struct TraceOptions {
  std::string mode = "g_binary";
  cxl::TrafficOptions traffic;
};

Status print_random_trace(const TraceOptions& options) {
  cxl::TrafficOptions traffic = options.traffic;
  traffic.mode = *cxl::find_mode(options.mode);
  fmt::print("{}", cxl::print_trace(cxl::random_traffic(traffic)));
  return {};
}

Status print_answers_of(const std::string& path) {
  const Expected<std::string> text = read_text_file(path, kMostTraceBytes);
  if (!text) return text.status();
  const Expected<cxl::Trace> trace = cxl::parse_trace(*text, path);
  if (!trace) return trace.status();
  fmt::print("{}", cxl::print_answers(cxl::run_trace(*trace)));
  return {};
}

}  // namespace

void add_cxl_trace(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("trace", "random traffic, as a trace");
  auto options = std::make_shared<TraceOptions>();
  cxl::TrafficOptions& traffic = options->traffic;
  command->add_option("--mode", options->mode, "of the region")
      ->type_name("identity|fp32|g_binary|g_ternary")
      ->check(CLI::IsMember({"identity", "fp32", "g_binary", "g_ternary"}).description(""))
      ->capture_default_str();
  const auto add_number = [command](const char* name, std::uint32_t& number, std::uint32_t least,
                                    std::uint32_t most, const char* what) {
    command->add_option(name, number, what)
        ->type_name("N")
        ->check(CLI::Range(least, most).description(""))
        ->capture_default_str();
  };
  add_number("--workers", traffic.workers, 1, 64, "that write");
  add_number("--lines", traffic.lines, 1, kMostLines, "of every worker");
  add_number("--rounds", traffic.rounds, 1, 1000, "of all lines, with a clear between");
  add_number("--idle", traffic.idle_percent, 0, 99, "% of the cycles without a request");
  add_number("--busy", traffic.busy_percent, 0, 99, "% of the cycles with a busy receiver");
  add_number("--faults", traffic.fault_percent, 0, 99, "% of the requests that are refused");
  command->add_option("--seed", traffic.seed, "of all that is random")
      ->type_name("N")
      ->capture_default_str();
  command->callback(
      [&action, options] { action = [options] { return print_random_trace(*options); }; });
}

void add_cxl_answers(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("answers", "what the model answers to a trace, and when");
  auto path = std::make_shared<std::string>();
  command->add_option("trace", *path, "a trace, as docs/cxl.md has them")
      ->required()
      ->type_name("TRACE");
  command->callback([&action, path] { action = [path] { return print_answers_of(*path); }; });
}

}  // namespace nf::cli
