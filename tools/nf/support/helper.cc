#include "nf/support/helper.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "nf/support/command.h"
#include "nf/support/python.h"

namespace nf::cli {
namespace {

// The script ./nf lists those that need the extension.
constexpr std::array kHelpers{
    Helper{"calibrate", "neuron_fabric_lab.calibrate",
           "find which gradients of a workload can be sent at low bits"},
    Helper{"compare", "neuron_fabric_lab.compare",
           "train a workload on several routes and compare the results"},
    Helper{"demo", "neuron_fabric_lab.demo",
           "train a small model with and without low-bit gradients"},
    Helper{"doctor", "neuron_fabric.doctor", "check this installation and suggest fixes",
           /*needs_torch=*/false},
    Helper{"report", "neuron_fabric.report", "create a page from the telemetry of a training run",
           /*needs_torch=*/false},
    Helper{"train", "neuron_fabric_lab.train", "train a workload on one route"},
};

constexpr std::string_view kInstall =
    "run `make setup build` in the source tree and use ./nf, or run `pip install .`";

// Checks the requirements of a helper, in the order in which they are installed.
Status check(const Helper& helper, const std::string& program) {
  const Expected<PythonPackages> packages = python_packages(program, helper.module);
  if (!packages) return packages.status();
  std::string missing;
  if (!packages->is_recent) {
    missing =
        fmt::format("Python 3.11 or newer, but '{}' is {}; set NF_PYTHON to a newer interpreter",
                    program, packages->python);
  } else if (helper.needs_torch && packages->torch.empty()) {
    missing = fmt::format("PyTorch, which '{}' does not have; {}", program, kInstall);
  } else if (packages->neuron_fabric.empty()) {
    missing =
        fmt::format("the package neuron_fabric, which '{}' does not have; {}", program, kInstall);
  } else if (helper.needs_torch && !packages->has_extension) {
    missing = fmt::format("the extension neuron_fabric._C, which is not in {}; {}",
                          packages->neuron_fabric, kInstall);
  } else if (!packages->has_module) {
    missing = fmt::format(
        "the module {}, which '{}' does not have; the package in {} has another version than nf; "
        "reinstall it",
        helper.module, program, packages->neuron_fabric);
  }
  if (missing.empty()) return {};
  return Status(ErrorCode::kUnsupported, fmt::format("'nf {}' needs {}", helper.name, missing));
}

}  // namespace

const Helper* find_helper(std::string_view name) {
  for (const Helper& helper : kHelpers) {
    if (helper.name == name) return &helper;
  }
  return nullptr;
}

Status start_helper(const Helper& helper, const char* const* arguments) {
  const std::string program = python_program();
  NF_RETURN_IF_ERROR(check(helper, program));
  const std::string module(helper.module);
  // -P: never import a torch.py of the working directory.
  std::vector<const char*> words{program.c_str(), "-P", "-m", module.c_str()};
  while (*arguments != nullptr) words.push_back(*arguments++);
  words.push_back(nullptr);
  // Helpers run nf by this path.
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) setenv("NF_PROGRAM", self.c_str(), 1);
  execvp(program.c_str(), const_cast<char* const*>(words.data()));
  return Status(ErrorCode::kUnsupported,
                fmt::format("cannot start '{}': {}", program, std::strerror(errno)));
}

void add_helpers(CLI::App& parent) {
  for (const Helper& helper : kHelpers) {
    parent.add_subcommand(std::string(helper.name), std::string(helper.summary));
  }
}

}  // namespace nf::cli
