#include "cxl/mode.h"

namespace nf::cxl {

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::kIdentity: return "identity";
    case Mode::kFp32: return "fp32";
    case Mode::kGBinary: return "g_binary";
    case Mode::kGTernary: return "g_ternary";
  }
  return "";
}

std::optional<Mode> find_mode(std::string_view name) {
  for (const Mode mode : kModes) {
    if (to_string(mode) == name) return mode;
  }
  return {};
}

}  // namespace nf::cxl
