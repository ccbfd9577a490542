#include "nf/replay/options.h"

#include <fmt/format.h>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/shared_reducer.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMostWorkers = 65'535;

// A codec of the reducers that count in memory.
Status check_counted(const Codec& codec) {
  NF_RETURN_IF_ERROR(SharedReducer::check(codec));
  if (codec.keeps_residual()) {
    return {ErrorCode::kUnsupported,
            fmt::format("a memory-side reducer takes no codec that keeps what it lost, as {}",
                        codec.spec().to_string())};
  }
  return {};
}

Status check_codec(const ReplayOptions& options) {
  if (!options.codec.starts_with("g_binary") && !options.codec.starts_with("g_ternary")) {
    return {ErrorCode::kBadConfig,
            fmt::format("--codec {}: a reducer counts g_binary or g_ternary", options.codec)};
  }
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  const bool is_counted = options.reducer == "cxl" || options.reducer == "shared";
  return is_counted ? check_counted(**codec) : Status();
}

}  // namespace

Status check(const ReplayOptions& options) {
  NF_RETURN_IF_ERROR(check_codec(options));
  if (options.is_measured && options.reducer != "shared") {
    return {ErrorCode::kBadConfig, "--measure: only the reducer `shared` is really there"};
  }
  if (!options.of_cxl.empty() && options.reducer != "cxl") {
    return {ErrorCode::kBadConfig,
            fmt::format("{}: only the reducer `cxl` has a controller", options.of_cxl.front())};
  }
  if (options.write_profile.empty() != options.profile.empty()) {
    return {ErrorCode::kBadConfig, "--profile and --write-profile belong together"};
  }
  if (!options.write_profile.empty() && options.reducer != "cxl") {
    return {ErrorCode::kBadConfig, "--write-profile: only the reducer `cxl` has a capacity"};
  }
  return {};
}

std::shared_ptr<ReplayOptions> add_replay_options(CLI::App& command) {
  auto options = std::make_shared<ReplayOptions>();
  command.add_option("trace", options->trace, "buckets of a job, or shapes:FILE, as below")
      ->required()
      ->type_name("TRACE");
  command.add_option("--reducer", options->reducer, "who adds, as below")
      ->type_name("ring|endpoint|cxl|shared")
      ->check(CLI::IsMember({"ring", "endpoint", "cxl", "shared"}).description(""))
      ->capture_default_str();
  command.add_option("--codec", options->codec, "of what travels at low bits")
      ->type_name("CODEC")
      ->capture_default_str();
  command.add_option("--workers", options->workers, "instead of those of the trace, or 8")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::uint32_t{1}, kMostWorkers).description(""));
  command.add_option("--link-gbps", options->gbps, "of every worker's link, each way")
      ->type_name("X,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1e-3, 1e6).description(""))
      ->capture_default_str();
  command.add_option("--latency-us", options->latency_us, "of a transfer over that link")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->capture_default_str();
  command.add_option("--clock-ghz", options->clock_ghz, "of cxl's controller")
      ->type_name("X")
      ->check(CLI::Range(1e-3, 100.0).description(""))
      ->capture_default_str();
  command.add_option("--order", options->order, "of cxl: where workers write at a time, as below")
      ->type_name("in_step|apart")
      ->check(CLI::IsMember({"in_step", "apart"}).description(""))
      ->capture_default_str();
  command.add_flag("--measure", options->is_measured,
                   "of shared: also sum the buckets really, a process a rank");
  command.add_option("--profile", options->profile, "a profile to take")->type_name("FILE");
  command
      .add_option("--write-profile", options->write_profile,
                  "where to write it with cxl's capacity for the last of --workers")
      ->type_name("FILE");
  command.add_flag("--json", options->as_json, "one JSON object a line instead of a table");
  command.footer(
      "Reducers: ring and endpoint are software over the link; cxl is the memory-side reducer by "
      "its\n"
      "closed formula, one device of CXL 2.0 x8 for all workers; shared is its functional model "
      "in\n"
      "the shared memory of this machine, measured at two sizes by a process a rank.\n"
      "\n"
      "In step, workers write the same line at about the same time, and cxl keeps its counters at "
      "hand;\n"
      "apart, every write takes them from memory and back. Capacity is that of apart.\n"
      "\n"
      "TRACE has one JSON object a line, the job's and then one a bucket:\n"
      "  {\"format\": \"neuron_fabric.buckets\", \"version\": 1, \"name\": \"mine\", \"workers\": "
      "4}\n"
      "  {\"step\": 0, \"values\": 262144, \"low_bit_values\": 210844}\n"
      "shapes:FILE makes one step of it from a model's parameters, as `nf plan --shapes` reads "
      "them.");
  return options;
}

}  // namespace nf::cli
