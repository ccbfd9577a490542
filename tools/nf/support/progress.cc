#include "nf/support/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace nf::cli {

Progress::Progress(std::size_t steps) : steps_(steps), is_shown_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(std::string_view what) {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\033[K[{}/{}] {}", step_, steps_, what);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!is_shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace nf::cli
