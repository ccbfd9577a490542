// Callbacks of the cycle-level model, for statistics, traces and tests.
#pragma once

#include <cstdint>

#include "cxl/reducer.h"
#include "cxl/timing.h"

namespace nf::cxl {

// A transfer of one line from or to a channel. The row is opened, the column is read or written,
// and the same command closes the row.
struct DramAccess {
  bool is_write = false;
  std::uint32_t channel = 0;
  std::uint32_t bank = 0;  // group + groups * bank of the group
  Picoseconds activate = 0;
  Picoseconds column = 0;
  Picoseconds data_end = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // The host has sent request `number` (from 0, in workload order), or has received its answer.
  virtual void on_request(std::uint64_t /*number*/, Picoseconds /*at*/) {}
  virtual void on_answer(std::uint64_t /*number*/, const Answer& /*answer*/, Picoseconds /*at*/) {}
  virtual void on_access(const DramAccess& /*access*/) {}
  virtual void on_refresh(std::uint32_t /*channel*/, Picoseconds /*begin*/) {}
};

}  // namespace nf::cxl
