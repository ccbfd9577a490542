// The functional model of the memory-side reducer: results without timing. Requests take effect one
// after the other; their order does not affect the sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cxl/line.h"
#include "cxl/registers.h"

namespace nf::cxl {

struct Request {
  bool is_write = false;
  std::uint64_t address = 0;
  Line data = {};  // of a write
};

struct Answer {
  Fault fault = Fault::kOk;
  bool complete = false;        // this write completed its line
  std::uint32_t additions = 0;  // sequential FP32 line additions that this write triggered
  Line data = {};               // of a successful read

  friend bool operator==(const Answer&, const Answer&) = default;
};

// Adds the lines of all workers in worker order, each as 16 FP32 values. Precondition: at least one
// worker.
Line fold_fp32(std::span<const Line> workers);

// The memory of one region, and the records of its lines.
class RegionMemory {
 public:
  RegionMemory() = default;
  RegionMemory(Mode mode, std::uint64_t workers, std::uint64_t lines);

  // The bytes that such a region allocates.
  static std::uint64_t bytes(Mode mode, std::uint64_t workers, std::uint64_t lines);

  // Fails with kDuplicate, kBadDigits or kOverflow; a failed write changes nothing.
  Fault write(std::uint32_t generation, std::uint64_t worker, std::uint64_t line, const Line& data,
              bool& complete);
  // Reads a worker's window, or result window `window` - workers. Fails with kNotComplete.
  Fault read(std::uint32_t generation, std::uint64_t window, std::uint64_t line, Line& data) const;

 private:
  struct Tag {
    std::uint64_t arrived = 0;  // bit w: worker w
    std::uint32_t generation = 0;
  };

  Mode mode_ = Mode::kIdentity;
  std::uint64_t workers_ = 0;
  std::uint64_t all_workers_ = 0;  // `arrived` of a complete line
  unsigned planes_ = 0;
  std::vector<Tag> tags_;
  std::vector<Line> lines_;  // by line: its planes, or the lines of all workers
  std::vector<Line> sums_;   // of fp32
};

class Reducer {
 public:
  explicit Reducer(const DeviceLimits& limits = {});

  Answer handle(const Request& request);

  // A host's access to a register.
  Fault write_register(std::uint64_t offset, std::uint64_t value);
  std::uint64_t read_register(std::uint64_t offset) const { return registers_.read(offset); }

  // Writes all registers of a region and enables it, or writes its control register. Returns the
  // fault of the last access.
  Fault enable(unsigned region, const RegionConfig& config);
  Fault control(unsigned region, Control control);

  const Registers& registers() const { return registers_; }

 private:
  Registers registers_;
  std::vector<RegionMemory> memories_;
};

}  // namespace nf::cxl
