// Plays a trace of docs/cxl.md and compares every answer, and its cycle, with those that the model
// wrote for it.
#pragma once

#include <string>

#include "device.h"

namespace nf::rtl {

// An empty string, or what is wrong: with a file, or with an answer.
std::string replay(Device& device, const std::string& trace_file, const std::string& answers_file,
                   std::uint64_t& compared);

}  // namespace nf::rtl
