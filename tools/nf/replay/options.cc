#include "nf/replay/options.h"

#include <fmt/format.h>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/shared_reducer.h"
#include "nf/replay/model.h"
#include "nf/support/numbers.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMaxWorkers = 65'535;

// Checks the codec for the memory-side reducers.
Status check_memory_side(const Codec& codec) {
  NF_RETURN_IF_ERROR(SharedReducer::check(codec));
  if (codec.keeps_residual()) {
    return {ErrorCode::kUnsupported,
            fmt::format("a memory-side reducer does not support error feedback ({})",
                        codec.spec().to_string())};
  }
  return {};
}

Status check_codec(const ReplayOptions& options) {
  if (!options.codec.starts_with("g_binary") && !options.codec.starts_with("g_ternary")) {
    return {ErrorCode::kBadConfig,
            fmt::format("--codec {} is not supported; reducers support g_binary and g_ternary",
                        options.codec)};
  }
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  const bool is_memory_side = options.reducer == "cxl" || options.reducer == "shared";
  return is_memory_side ? check_memory_side(**codec) : Status();
}

}  // namespace

Status check(const ReplayOptions& options) {
  NF_RETURN_IF_ERROR(check_codec(options));
  if (options.is_measured && options.reducer != "shared") {
    return {ErrorCode::kBadConfig, "--measure needs --reducer shared"};
  }
  if (!options.cxl_options.empty() && options.reducer != "cxl") {
    return {ErrorCode::kBadConfig,
            fmt::format("{} needs --reducer cxl", options.cxl_options.front())};
  }
  if (options.write_profile.empty() != options.profile.empty()) {
    return {ErrorCode::kBadConfig, "--profile and --write-profile must be used together"};
  }
  if (!options.write_profile.empty() && options.reducer != "cxl") {
    return {ErrorCode::kBadConfig, "--write-profile needs --reducer cxl"};
  }
  return {};
}

std::shared_ptr<ReplayOptions> add_replay_options(CLI::App& command) {
  auto options = std::make_shared<ReplayOptions>();
  command.add_option("trace", options->trace, "buckets of a job, or shapes:FILE; see below")
      ->required()
      ->type_name("TRACE");
  add_choice(command, "--reducer", options->reducer, names_of(kReplayReducers),
             "reducer; see below");
  command.add_option("--codec", options->codec, "codec of the low-bit values")
      ->type_name("CODEC")
      ->capture_default_str();
  add_numbers(command, "--workers", options->workers, {.min = 1, .max = kMaxWorkers},
              fmt::format("workers; default: those of the trace, or {}", kDefaultWorkers));
  add_numbers(command, "--link-gbps", options->gbps, {.min = 1e-3, .max = 1e6},
              "link speeds in Gb/s, per worker and direction");
  add_number(command, "--latency-us", options->latency_us, {.min = 0, .max = 1e6},
             "latency of a transfer over the link");
  add_number(command, "--clock-ghz", options->clock_ghz, {.min = 1e-3, .max = 100},
             "clock rate of the cxl controller");
  add_choice(command, "--order", options->order, {"in_step", "apart"},
             "order of the writes, for cxl; see below");
  command.add_flag("--measure", options->is_measured,
                   "for shared: also run the all-reduces, with one process per rank");
  command.add_option("--profile", options->profile, "profile to read")->type_name("FILE");
  command
      .add_option("--write-profile", options->write_profile,
                  "write the profile here, with the cxl capacity for the last of --workers")
      ->type_name("FILE");
  add_json_flag(command, options->as_json);
  command.footer(
      "Reducers: ring and endpoint are software over the link. cxl is the memory-side reducer,\n"
      "predicted by its closed formula: one CXL 2.0 x8 device for all workers. shared is its\n"
      "functional model in the shared memory of this host, measured at two sizes with one process\n"
      "per rank.\n"
      "\n"
      "in_step: workers write the same line at about the same time, and the device keeps its\n"
      "counters on chip. apart: every write reads the counters from memory and writes them back.\n"
      "The capacity is that of apart.\n"
      "\n"
      "TRACE has one JSON object per line: first the job, then each bucket:\n"
      "  {\"format\": \"neuron_fabric.buckets\", \"version\": 1, \"name\": \"mine\", \"workers\": "
      "4}\n"
      "  {\"step\": 0, \"values\": 262144, \"low_bit_values\": 210844}\n"
      "shapes:FILE generates one step from the parameters of a model; see `nf plan --help` for "
      "the\n"
      "format of FILE.");
  return options;
}

}  // namespace nf::cli
