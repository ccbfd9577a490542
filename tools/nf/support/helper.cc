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

// One line each; ./nf names those that it builds the extension for.
constexpr std::array kHelpers{
    Helper{"calibrate", "neuron_fabric_lab.calibrate",
           "find out which gradients of a workload may travel at low bits"},
    Helper{"compare", "neuron_fabric_lab.compare",
           "train a workload along several routes, and tell which is as good"},
    Helper{"demo", "neuron_fabric_lab.demo",
           "train a small model with and without low-bit gradients"},
    Helper{"doctor", "neuron_fabric.doctor",
           "see whether this installation can do its job, and what to do where not",
           /*needs_torch=*/false},
    Helper{"report", "neuron_fabric.report", "make a page of what a training run recorded",
           /*needs_torch=*/false},
    Helper{"train", "neuron_fabric_lab.train", "train a workload along one route"},
};

constexpr std::string_view kInstall =
    "in the source tree `make setup build` makes what ./nf needs, `pip install .` installs it";

// Everything a helper needs, looked for in the order in which one would install it.
Status check(const Helper& helper, const std::string& program) {
  const Expected<PythonPackages> has = python_packages(program, helper.module);
  if (!has) return has.status();
  std::string missing;
  if (!has->is_recent) {
    missing = fmt::format("Python 3.11 or newer, and '{}' is {}; NF_PYTHON names another", program,
                          has->python);
  } else if (helper.needs_torch && has->torch.empty()) {
    missing = fmt::format("PyTorch, which '{}' does not have; {}", program, kInstall);
  } else if (has->neuron_fabric.empty()) {
    missing =
        fmt::format("the package neuron_fabric, which '{}' does not have; {}", program, kInstall);
  } else if (helper.needs_torch && !has->has_extension) {
    missing = fmt::format("the extension neuron_fabric._C, which is not in {}; {}",
                          has->neuron_fabric, kInstall);
  } else if (!has->has_module) {
    missing = fmt::format(
        "the module {}, which '{}' does not have; {} is of another version than this program",
        helper.module, program, has->neuron_fabric);
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
  // -P: a file torch.py in the working folder is not PyTorch.
  std::vector<const char*> words{program.c_str(), "-P", "-m", module.c_str()};
  while (*arguments != nullptr) words.push_back(*arguments++);
  words.push_back(nullptr);
  // Whom a helper asks that wants to know of nf itself.
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
