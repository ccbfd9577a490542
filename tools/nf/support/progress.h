// A line on the terminal that says what long work is at; nothing where standard error is no
// terminal.
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

  // The next step begins.
  void step() { ++step_; }
  // Says what this step is doing.
  void show(std::string_view what);
  // Takes the line away, so that output can follow.
  void clear();

 private:
  const std::size_t steps_;
  const bool is_shown_;
  std::size_t step_ = 0;
};

}  // namespace nf::cli
