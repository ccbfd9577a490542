// Writes down what the ranks of a SharedReducer write, as a trace for the pipeline and the RTL
// (docs/cxl.md#traces): real gradients, with idle cycles and a busy receiver of its own making.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "cxl/line.h"
#include "cxl/mode.h"
#include "neuron_fabric/status.h"

namespace nf::cxl {

class SharedRecord {
 public:
  // Nothing more is written after `most_lines` lines of all workers together.
  Status open(const std::string& path, std::uint32_t workers, std::uint64_t most_lines);

  bool is_open() const { return file_.is_open(); }

  // One reduction: a region, every worker's lines in step, all results read. The lines of worker w
  // begin at by_worker[w]. Of many lines, the first kMostRegionLines. Fails where they cannot be
  // written, as on a full disk.
  Status add(Mode mode, std::span<const std::byte* const> by_worker, std::size_t lines);

 private:
  static constexpr std::size_t kMostRegionLines = 512;

  Status not_written() const;

  std::string path_;
  std::ofstream file_;
  std::uint32_t workers_ = 0;
  std::uint64_t lines_left_ = 0;
  std::uint64_t draw_ = 0;
};

}  // namespace nf::cxl
