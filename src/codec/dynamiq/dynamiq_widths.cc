#include "codec/dynamiq/dynamiq_widths.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/super_group.h"
#include "codec/water_level.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

// From the first need of 4 bits to the first of 8: 8 log2(512/17) = 39.3 eighths of an octave.
constexpr int kBand = 39;

constexpr std::array<Rung, 3> kLadder = {
    {{.width = 2, .group_bytes = group_bytes(2)},
     {.width = 4, .group_bytes = group_bytes(4)},
     {.width = 8, .threshold = kBand, .group_bytes = group_bytes(8)}}};

// The energy of what all ranks hold of super-group j, mean included.
float energy_of(const WidthRequest& parameter, std::size_t j, std::size_t held,
                std::uint32_t ranks) {
  const std::byte* at = parameter.statistics.data() + j * kSuperGroupStatistics;
  const float mean = bfloat16_to_float(get_u16(at));
  const float about_mean = bfloat16_to_float(get_u16(at + 2));
  const float values = static_cast<float>(held) * static_cast<float>(ranks);
  return about_mean + values * (mean * mean);
}

}  // namespace

void fit_dynamiq_widths(std::span<const WidthRequest> parameters, std::uint32_t ranks,
                        std::size_t code_bytes) {
  thread_local std::vector<WidthDemand> demands;  // keeps its room
  demands.clear();
  for (const WidthRequest& parameter : parameters) {
    for (std::size_t j = 0; j < super_groups_of(parameter.count); ++j) {
      const std::size_t held = std::min(kSuperGroup, parameter.count - j * kSuperGroup);
      demands.push_back({.need = energy_of(parameter, j, held, ranks),
                         .groups = static_cast<std::uint8_t>(groups_of(held))});
    }
  }
  fill_to_level(demands, kLadder, code_bytes);
  std::size_t next = 0;
  for (const WidthRequest& parameter : parameters) {
    for (std::uint8_t& width : parameter.widths) width = demands[next++].width;
  }
}

}  // namespace nf
