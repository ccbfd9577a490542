#include "cxl/fault.h"

#include <cstddef>

namespace nf::cxl {
namespace {

struct Text {
  std::string_view name;
  std::string_view description;
};

constexpr Text kTexts[kFaults] = {
    {"ok", ""},
    {"wrong_mode", "unknown mode, or the mode does not support this access"},
    {"overlap", "windows or records overlap another region"},
    {"too_many_workers", "no workers, or more than the controller or its counters support"},
    {"not_complete", "read before all workers have written"},
    {"duplicate", "the worker has already written this line"},
    {"out_of_range", "no such line, window, record, region or register"},
    {"bad_digits", "a byte above 242 does not encode five digits"},
    {"misaligned", "not a multiple of 64"},
    {"locked", "the region is enabled, or the register is read-only"},
    {"exhausted", "no generation is left; reset the device"},
    {"overflow", "a counter would have wrapped"},
};

}  // namespace

std::string_view to_string(Fault fault) { return kTexts[static_cast<std::size_t>(fault)].name; }

std::string_view describe(Fault fault) {
  return kTexts[static_cast<std::size_t>(fault)].description;
}

}  // namespace nf::cxl
