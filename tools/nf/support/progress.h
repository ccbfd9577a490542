// A progress line on standard error. Prints nothing if standard error is not a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace nf::cli {

class Progress {
 public:
  explicit Progress(std::size_t steps);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Begins the next step.
  void step() { ++step_; }
  // Shows the current activity of this step.
  void show(std::string_view what);
  // Erases the line, so that output can follow.
  void clear();

 private:
  const std::size_t steps_;
  const bool is_shown_;
  std::size_t step_ = 0;
};

}  // namespace nf::cli
