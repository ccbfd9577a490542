// Plays a trace of docs/cxl.md and compares every answer and its cycle with the model's.
#pragma once

#include <string>

#include "device.h"

namespace nf::rtl {

// Returns an empty string, or the error in a file or an answer.
std::string replay(Device& device, const std::string& trace_file, const std::string& answers_file,
                   std::uint64_t& compared);

}  // namespace nf::rtl
