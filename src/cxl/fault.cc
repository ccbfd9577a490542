#include "cxl/fault.h"

#include <cstddef>

namespace nf::cxl {
namespace {

struct Text {
  std::string_view name;
  std::string_view meaning;
};

constexpr Text kTexts[kFaults] = {
    {"ok", ""},
    {"wrong_mode", "there is no such mode, or the mode has no such access"},
    {"overlap", "windows or records of another region are touched"},
    {"too_many_workers", "more workers than the controller or its counters can take, or none"},
    {"not_complete", "read before all workers have written"},
    {"duplicate", "a worker has written this line before"},
    {"out_of_range", "there is no such line, window, record, region or register"},
    {"bad_digits", "a byte above 242 is no five digits"},
    {"misaligned", "not a multiple of 64"},
    {"locked", "the region is enabled, or the register is read-only"},
    {"exhausted", "no generation is left: the device must be reset"},
    {"overflow", "a counter would have wrapped"},
};

}  // namespace

std::string_view to_string(Fault fault) { return kTexts[static_cast<std::size_t>(fault)].name; }

std::string_view meaning(Fault fault) { return kTexts[static_cast<std::size_t>(fault)].meaning; }

}  // namespace nf::cxl
