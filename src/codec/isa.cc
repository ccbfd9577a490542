#include "codec/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace nf {
namespace {

std::vector<Isa> detect() {
  std::vector<Isa> isas;
  [[maybe_unused]] const auto targets = hwy::SupportedTargets() & HWY_TARGETS;
#if HWY_ARCH_X86
  if ((targets & HWY_AVX3) != 0) isas.push_back(Isa::kAvx512);
  if ((targets & HWY_AVX2) != 0) isas.push_back(Isa::kAvx2);
#elif HWY_ARCH_ARM
  if ((targets & HWY_NEON) != 0) isas.push_back(Isa::kNeon);
#endif
  isas.push_back(Isa::kScalar);
  return isas;
}

std::optional<Isa>& chosen() {
  static std::optional<Isa> isa;
  return isa;
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kNeon: return "neon";
  }
  return "unknown";
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Expected<Isa> find_isa(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Isa isa : available_isas()) {
    if (to_string(isa) == name) return isa;
    names.push_back(to_string(isa));
  }
  return Status(ErrorCode::kUnsupported, fmt::format("ISA '{}' is not available; this host has {}",
                                                     name, fmt::join(names, ", ")));
}

Expected<Isa> active_isa() {
  if (chosen()) return *chosen();
  if (const char* forced = std::getenv("NF_FORCE_ISA"); forced != nullptr && *forced != '\0') {
    Expected<Isa> isa = find_isa(forced);
    if (!isa) {
      return Status(ErrorCode::kUnsupported, "NF_FORCE_ISA: " + isa.status().message());
    }
    return isa;
  }
  return available_isas().front();
}

void set_isa(Isa isa) { chosen() = isa; }

}  // namespace nf
