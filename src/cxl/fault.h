// The error codes of requests and register accesses, as in the error registers
// (docs/cxl.md#registers).
#pragma once

#include <cstdint>
#include <string_view>

namespace nf::cxl {

enum class Fault : std::uint8_t {
  kOk,
  kWrongMode,       // unknown mode, or the mode does not support this access
  kOverlap,         // windows or records overlap another region
  kTooManyWorkers,  // for the controller or for its counters
  kNotComplete,     // a read before all workers have written
  kDuplicate,       // a second write of one worker to one line
  kOutOfRange,      // no such line, window, record, region or register
  kBadDigits,       // a byte that does not encode five digits
  kMisaligned,      // not a multiple of 64
  kLocked,          // the region is enabled, or the register read-only
  kExhausted,       // no generation is left
  kOverflow,        // a carry out of the last plane
};
inline constexpr unsigned kFaults = 12;

// "wrong_mode".
std::string_view to_string(Fault fault);

// "unknown mode, or the mode does not support this access".
std::string_view describe(Fault fault);

}  // namespace nf::cxl
