#include "nf/support/python.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

namespace nf::cli {
namespace {

// Prints a line `key value` for each package that is installed. It must run in any Python 3, and
// must ignore the working directory, which `-c` puts on the path.
constexpr std::string_view kProbe = R"(
import os, re, sys
from importlib.util import find_spec
sys.path = [folder for folder in sys.path if folder]
def folder_of(package):
    spec = find_spec(package)
    return os.path.dirname(spec.origin) if spec and spec.origin else None
print("python", ".".join(map(str, sys.version_info[:3])))
if sys.version_info < (3, 11):
    sys.exit()
print("recent yes")
torch = folder_of("torch")
if torch:
    with open(os.path.join(torch, "version.py")) as file:
        print("torch", re.search("__version__ = ['\"](.*)['\"]", file.read()).group(1))
package = folder_of("neuron_fabric")
if package:
    print("neuron_fabric", package)
    for key, name in ("extension", "neuron_fabric._C"), ("module", sys.argv[1]):
        try:
            if name and find_spec(name):
                print(key, "yes")
        except ModuleNotFoundError:  # its package
            pass
)";

// Quotes `text` for a shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += R"('\'')";
    } else {
      word += c;
    }
  }
  return word + "'";
}

// The standard output of a shell command. Fails if the exit status is not 0.
Expected<std::string> output_of(const std::string& command) {
  const Status failure(ErrorCode::kUnsupported, "the command failed");
  std::FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return failure;
  std::string output;
  std::array<char, 4096> block{};
  while (const std::size_t size = std::fread(block.data(), 1, block.size(), pipe)) {
    output.append(block.data(), size);
  }
  if (pclose(pipe) != 0) return failure;
  return output;
}

}  // namespace

std::string python_program() {
  const char* const chosen = std::getenv("NF_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "python3";
  if (!error && std::filesystem::exists(beside, error)) return beside.string();
  return "python3";
}

Expected<PythonPackages> python_packages(const std::string& program, std::string_view module) {
  const Expected<std::string> output =
      output_of(fmt::format("{} -c {} {} </dev/null 2>/dev/null", shell_word(program),
                            shell_word(kProbe), shell_word(module)));
  std::map<std::string, std::string> found;
  if (output) {
    std::istringstream lines(*output);
    for (std::string key, value; lines >> key && std::getline(lines >> std::ws, value);) {
      found[key] = value;
    }
  }
  if (!found.contains("python")) {
    return Status(
        ErrorCode::kUnsupported,
        fmt::format("cannot run '{}' as Python; set NF_PYTHON to a Python interpreter", program));
  }
  return PythonPackages{.python = found["python"],
                        .is_recent = found.contains("recent"),
                        .torch = found["torch"],
                        .neuron_fabric = found["neuron_fabric"],
                        .has_extension = found.contains("extension"),
                        .has_module = found.contains("module")};
}

}  // namespace nf::cli
