// The threads of this process.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace nf::test {

// The number of threads with this name.
inline int count_threads(std::string_view name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string own;
    std::ifstream(task.path() / "comm") >> own;  // empty if the thread has just ended
    count += own == name ? 1 : 0;
  }
  return count;
}

}  // namespace nf::test
