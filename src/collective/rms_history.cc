#include "collective/rms_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "base/float16.h"
#include "collective/all_zero.h"
#include "collective/checkpoint_checks.h"

namespace nf {
namespace {

constexpr std::size_t kBlock = 256;  // elements that share a floor
constexpr float kShare = 0.05F;      // of a new sum in the running mean

using Squares = std::span<const std::uint16_t>;
using Scale = void (*)(const std::uint16_t* squares, float floor, std::size_t count, float* values);

float mean_of(const RmsUnits& units, Squares squares) {
  return units.sum(squares.data(), squares.size()) / static_cast<float>(squares.size());
}

// Calls work(first, count, mean of the squares) for each block.
template <typename Work>
void for_each_block(const RmsUnits& units, Squares squares, Work work) {
  for (std::size_t first = 0; first < squares.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, squares.size() - first);
    work(first, count, mean_of(units, squares.subspan(first, count)));
  }
}

// The mean of a whole parameter.
float mean_of_all(const RmsUnits& units, Squares squares) {
  double sum = 0;
  for_each_block(units, squares, [&](std::size_t, std::size_t count, float mean) {
    sum += double{mean} * static_cast<double>(count);
  });
  return static_cast<float>(sum / static_cast<double>(squares.size()));
}

void scale_blocks(const RmsUnits& units, Scale scale, Squares squares, std::size_t steps,
                  std::span<float> values) {
  // A mean of few steps scatters, and a square far below the others may be chance.
  const float share = 1.0F / static_cast<float>(steps);
  std::optional<float> of_all;  // rarely needed
  for_each_block(units, squares, [&](std::size_t first, std::size_t count, float mean) {
    float floor = mean * share;
    if (mean == 0) {
      if (!of_all) of_all = mean_of_all(units, squares);
      if (*of_all == 0) return;
      floor = *of_all;
    }
    scale(squares.data() + first, std::clamp(floor, kLeastSquare, kMostSquare), count,
          values.data() + first);
  });
}

const RmsUnits& active_units() {
  const Expected<Isa> isa = active_isa();
  return rms_units(isa ? *isa : Isa::kScalar);  // every form has the same bits
}

}  // namespace

RmsHistory::RmsHistory() : units_(active_units()) {}

Status RmsHistory::scale(std::uint64_t parameter, std::span<float> values) {
  History& history = by_parameter_[parameter];
  history.can_undo = false;
  if (history.squares.empty()) return {};
  if (history.squares.size() != values.size()) {
    return bad_memory(parameter, fmt::format("its RMS history has {} values, but the parameter now "
                                             "has {}; call forget() first",
                                             history.squares.size(), values.size()));
  }
  scale_blocks(units_, units_.multiply, history.squares, history.steps, values);
  return {};
}

void RmsHistory::unscale(std::uint64_t parameter, std::span<float> values) const {
  const auto held = by_parameter_.find(parameter);
  if (held == by_parameter_.end() || held->second.squares.empty()) return;
  scale_blocks(units_, units_.divide, held->second.squares, held->second.steps, values);
}

void RmsHistory::commit(std::uint64_t parameter, std::span<const float> sum, float inverse_scale) {
  History& history = by_parameter_[parameter];
  if (all_zero(sum)) return;
  history.previous_steps = history.steps;
  history.steps = std::min(history.steps + 1, kMaxSteps);
  history.squares.resize(sum.size());
  history.previous.resize(sum.size());
  std::swap(history.squares, history.previous);
  units_.update(sum.data(), inverse_scale, kShare, history.previous.data(), sum.size(),
                history.squares.data());
  if (history.previous_steps == 0) history.previous.clear();
  history.can_undo = true;
}

void RmsHistory::undo(std::uint64_t parameter) {
  const auto held = by_parameter_.find(parameter);
  if (held == by_parameter_.end() || !held->second.can_undo) return;
  std::swap(held->second.squares, held->second.previous);
  std::swap(held->second.steps, held->second.previous_steps);
  held->second.can_undo = false;
}

std::uint64_t RmsHistory::digest(std::uint64_t parameter, std::uint64_t seed) const {
  const auto held = by_parameter_.find(parameter);
  if (held == by_parameter_.end()) return checksum({}, seed);
  return checksum(std::as_bytes(std::span(held->second.squares)), seed + held->second.steps);
}

std::vector<MemoryEntry> RmsHistory::save_memory() const {
  std::vector<MemoryEntry> memory;
  for (const auto& [parameter, history] : by_parameter_) {
    if (history.squares.empty()) continue;
    MemoryEntry& entry = memory.emplace_back(
        MemoryEntry{.parameter = parameter, .kind = std::string(kKind), .rows = history.steps});
    for (const std::uint16_t square : history.squares) {
      entry.values.push_back(bfloat16_to_float(square));
    }
  }
  sort_memory(memory);
  return memory;
}

Status RmsHistory::load_memory(std::span<const MemoryEntry> memory) {
  NF_RETURN_IF_ERROR(check_memory(memory, std::span(&kKind, 1)));
  for (const MemoryEntry& entry : memory) {
    const auto is_square = [](float value) {
      return value >= 0 && bfloat16_to_float(float_to_bfloat16(value)) == value;
    };
    if (!std::ranges::all_of(entry.values, is_square)) {
      return bad_memory(entry.parameter, "its rms_history has values that are no BF16 squares");
    }
    if (entry.rows == 0 || entry.rows > kMaxSteps) {
      return bad_memory(
          entry.parameter,
          fmt::format("an rms_history of {} steps instead of 1 to {}", entry.rows, kMaxSteps));
    }
    const auto held = by_parameter_.find(entry.parameter);
    if (held != by_parameter_.end() && !held->second.squares.empty() &&
        held->second.squares.size() != entry.values.size()) {
      return bad_memory(entry.parameter,
                        fmt::format("an RMS history of {} values instead of {}",
                                    entry.values.size(), held->second.squares.size()));
    }
  }
  for (const MemoryEntry& entry : memory) {
    History& history = by_parameter_[entry.parameter];
    history = {};
    history.steps = entry.rows;
    for (const float value : entry.values) history.squares.push_back(float_to_bfloat16(value));
  }
  return {};
}

}  // namespace nf
