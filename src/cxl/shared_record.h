// Records the lines that the ranks of a SharedReducer write, as a trace for the pipeline and the
// RTL (docs/cxl.md#traces): real gradients, with synthetic idle cycles and a busy receiver.
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
  // Recording stops after `max_lines` lines of all workers together.
  Status open(const std::string& path, std::uint32_t workers, std::uint64_t max_lines);

  bool is_open() const { return file_.is_open(); }

  // Records one reduction: a region, the lines of all workers in step, and reads of all results.
  // The lines of worker w start at by_worker[w]. At most kMaxRegionLines are recorded. Fails if the
  // file cannot be written, for example because the disk is full.
  Status add(Mode mode, std::span<const std::byte* const> by_worker, std::size_t lines);

 private:
  static constexpr std::size_t kMaxRegionLines = 512;

  Status write_error() const;

  std::string path_;
  std::ofstream file_;
  std::uint32_t workers_ = 0;
  std::uint64_t lines_left_ = 0;
  std::uint64_t draw_ = 0;
};

}  // namespace nf::cxl
