#include "collective/residuals.h"

#include <fmt/format.h>

#include <utility>

#include "collective/all_zero.h"
#include "collective/checkpoint_checks.h"

namespace nf {

Expected<std::span<float>> Residuals::begin(std::uint64_t parameter, std::size_t count) {
  const auto [at, is_new] = by_parameter_.try_emplace(parameter);
  Residual& residual = at->second;
  if (is_new) residual.kept.assign(count, 0.0f);
  NF_RETURN_IF_ERROR(check_residual(parameter, residual.kept.size(), count));
  residual.next.assign(count, 0.0f);
  residual.holds_what_was = false;
  residual.is_added = false;
  return std::span(residual.next);
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
    const std::vector<float>& kept = residual.kept;
    auto* work = static_cast<float*>(parameter.work.data);
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      work[i] += loss_scale * kept[i];
    }
  }
}

void Residuals::keep(std::span<const ParameterView> parameters) {
  for (const ParameterView& parameter : parameters) {
    Residual& residual = by_parameter_[parameter.key];
    if (!residual.is_added) {
      for (std::size_t i = 0; i < residual.kept.size(); ++i) residual.next[i] += residual.kept[i];
    }
    std::swap(residual.kept, residual.next);
    residual.holds_what_was = true;
  }
}

void Residuals::undo(std::uint64_t parameter) {
  const auto held = by_parameter_.find(parameter);
  if (held == by_parameter_.end() || !held->second.holds_what_was) return;
  std::swap(held->second.kept, held->second.next);
  held->second.holds_what_was = false;
}

std::vector<Remembered> Residuals::remembered() const {
  std::vector<Remembered> memory;
  for (const auto& [parameter, residual] : by_parameter_) {
    memory.push_back({.parameter = parameter, .what = std::string(kWhat), .values = residual.kept});
  }
  sort_memory(memory);
  return memory;
}

Status Residuals::remember(std::span<const Remembered> memory) {
  NF_RETURN_IF_ERROR(
      check_residuals(memory, [this](std::uint64_t parameter) -> std::optional<std::size_t> {
        const auto held = by_parameter_.find(parameter);
        if (held == by_parameter_.end()) return {};
        return held->second.kept.size();
      }));
  for (const Remembered& one : memory) {
    Residual& residual = by_parameter_[one.parameter];
    residual.kept = one.values;
    residual.holds_what_was = false;
  }
  return {};
}

Status check_residual(std::uint64_t parameter, std::size_t remembered, std::size_t now) {
  if (remembered == now) return {};
  return bad_memory(parameter, fmt::format("a residual of {} values is remembered of it, and it "
                                           "now has {}; forget() it first",
                                           remembered, now));
}

Status check_residuals(
    std::span<const Remembered> memory,
    const std::function<std::optional<std::size_t>(std::uint64_t parameter)>& known) {
  NF_RETURN_IF_ERROR(check_memory(memory, std::span(&Residuals::kWhat, 1)));
  for (const Remembered& one : memory) {
    const std::optional<std::size_t> held = known(one.parameter);
    if (held && *held != one.values.size()) {
      return bad_memory(one.parameter, fmt::format("a residual of {} values, where it has {}",
                                                   one.values.size(), *held));
    }
  }
  return {};
}

}  // namespace nf
