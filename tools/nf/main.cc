// The nf command. Only this file turns a Status into an exit code: 0 on success, 2 if the command
// line or an input is invalid or unsupported, 1 on any other failure.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "neuron_fabric/version.h"
#include "nf/support/command.h"
#include "nf/support/helper.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kBadUsage = 2;

int exit_code(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kOk: return 0;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kBadConfig:
    case ErrorCode::kUnsupported: return kBadUsage;
    case ErrorCode::kCorruptFrame:
    case ErrorCode::kForeignFrame:
    case ErrorCode::kDisagreement:
    case ErrorCode::kPeerLost:
    case ErrorCode::kAborted:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kOutOfMemory: return kFailure;
  }
  return kFailure;
}

int finish(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "nf: {}\n", status.message());
  return exit_code(status);
}

int run(int argc, char** argv) {
  // Helpers parse their own arguments.
  if (const Helper* helper = argc > 1 ? find_helper(argv[1]) : nullptr) {
    return finish(start_helper(*helper, argv + 2));
  }
  CLI::App app("NEURON-Fabric: gradient communication at 1 to 8 bits per element.", "nf");
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag("--version", fmt::format("nf {}", kVersion), "show the version");
  app.require_subcommand(1);
  Action action;
  add_info(app, action);
  add_bench(app, action);
  add_cxl(app, action);
  add_plan(app, action);
  add_profile(app, action);
  add_quality(app, action);
  add_replay(app, action);
  add_helpers(app);
  add_help(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    fmt::print(stderr, "nf: {}\nsee `{} --help`\n", usage_error(app, error),
               full_name(selected_command(app)));
    return kBadUsage;
  }
  return finish(action());
}

}  // namespace
}  // namespace nf::cli

int main(int argc, char** argv) {
  int code = nf::cli::kFailure;
  try {
    code = nf::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("nf: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nf: %s\n", error.what());
  }
  if (std::fflush(stdout) != 0) {
    std::perror("nf: cannot write the output");
    code = nf::cli::kFailure;
  }
  return code;
}
