#include "collective/residuals.h"

#include <fmt/format.h>

#include <utility>

#include "collective/all_zero.h"
#include "collective/checkpoint_checks.h"

namespace nf {

Expected<std::span<float>> Residuals::begin(std::uint64_t parameter, std::size_t count) {
  const auto [at, is_new] = by_parameter_.try_emplace(parameter);
  Residual& residual = at->second;
  if (is_new) residual.current.assign(count, 0.0f);
  NF_RETURN_IF_ERROR(check_residual(parameter, residual.current.size(), count));
  residual.other.assign(count, 0.0f);
  residual.can_undo = false;
  residual.is_added = false;
  return std::span(residual.other);
}

void Residuals::add(std::span<const Piece> domain, std::span<const ParameterView> parameters,
                    float loss_scale) {
  for (const Piece& piece : domain) {
    const ParameterView& parameter = parameters[piece.parameter];
    const std::span work(static_cast<const float*>(parameter.work.data) + piece.first, piece.count);
    Residual& residual = by_parameter_[parameter.key];
    residual.is_added = residual.is_added || !all_zero(work);
  }
  for (const Piece& piece : domain) {
    const ParameterView& parameter = parameters[piece.parameter];
    const Residual& residual = by_parameter_[parameter.key];
    if (!residual.is_added) continue;
    const std::vector<float>& current = residual.current;
    auto* work = static_cast<float*>(parameter.work.data);
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      work[i] += loss_scale * current[i];
    }
  }
}

void Residuals::commit(std::span<const ParameterView> parameters) {
  for (const ParameterView& parameter : parameters) {
    Residual& residual = by_parameter_[parameter.key];
    if (!residual.is_added) {
      for (std::size_t i = 0; i < residual.current.size(); ++i)
        residual.other[i] += residual.current[i];
    }
    std::swap(residual.current, residual.other);
    residual.can_undo = true;
  }
}

void Residuals::undo(std::uint64_t parameter) {
  const auto held = by_parameter_.find(parameter);
  if (held == by_parameter_.end() || !held->second.can_undo) return;
  std::swap(held->second.current, held->second.other);
  held->second.can_undo = false;
}

std::vector<MemoryEntry> Residuals::save_memory() const {
  std::vector<MemoryEntry> memory;
  for (const auto& [parameter, residual] : by_parameter_) {
    memory.push_back(
        {.parameter = parameter, .kind = std::string(kKind), .values = residual.current});
  }
  sort_memory(memory);
  return memory;
}

Status Residuals::load_memory(std::span<const MemoryEntry> memory) {
  NF_RETURN_IF_ERROR(
      check_residuals(memory, [this](std::uint64_t parameter) -> std::optional<std::size_t> {
        const auto held = by_parameter_.find(parameter);
        if (held == by_parameter_.end()) return {};
        return held->second.current.size();
      }));
  for (const MemoryEntry& entry : memory) {
    Residual& residual = by_parameter_[entry.parameter];
    residual.current = entry.values;
    residual.can_undo = false;
  }
  return {};
}

Status check_residual(std::uint64_t parameter, std::size_t stored, std::size_t current) {
  if (stored == current) return {};
  return bad_memory(
      parameter,
      fmt::format("its residual has {} values, but the parameter now has {}; call forget() first",
                  stored, current));
}

Status check_residuals(
    std::span<const MemoryEntry> memory,
    const std::function<std::optional<std::size_t>(std::uint64_t parameter)>& known) {
  NF_RETURN_IF_ERROR(check_memory(memory, std::span(&Residuals::kKind, 1)));
  for (const MemoryEntry& entry : memory) {
    const std::optional<std::size_t> held = known(entry.parameter);
    if (held && *held != entry.values.size()) {
      return bad_memory(entry.parameter, fmt::format("a residual of {} values instead of {}",
                                                     entry.values.size(), *held));
    }
  }
  return {};
}

}  // namespace nf
