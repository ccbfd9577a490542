// Why the controller refused a request or a register access: the codes of its error registers
// (docs/cxl.md#registers).
#pragma once

#include <cstdint>
#include <string_view>

namespace nf::cxl {

enum class Fault : std::uint8_t {
  kOk,
  kWrongMode,       // there is no such mode, or this mode has no such access
  kOverlap,         // windows or records of another region are touched
  kTooManyWorkers,  // for the controller, or for its counters
  kNotComplete,     // a read before everybody has written
  kDuplicate,       // a second write of one worker to one line
  kOutOfRange,      // no such line, window, record, region or register
  kBadDigits,       // a byte that is no five digits
  kMisaligned,      // no multiple of 64
  kLocked,          // the region is enabled, or the register read-only
  kExhausted,       // no generation is left
  kOverflow,        // a carry out of the last plane
};
inline constexpr unsigned kFaults = 12;

// "wrong_mode".
std::string_view to_string(Fault fault);

// "there is no such mode, or the mode has no such access".
std::string_view meaning(Fault fault);

}  // namespace nf::cxl
