#include "collective/residuals.h"

#include <utility>

namespace nf {

std::span<float> Residuals::begin(std::uint64_t parameter, std::size_t count) {
  Residual& residual = by_parameter_[parameter];
  residual.kept.resize(count, 0.0f);
  residual.next.assign(count, 0.0f);
  return residual.next;
}

void Residuals::add(std::span<const Piece> domain, std::span<const ParameterView> parameters) {
  for (const Piece& piece : domain) {
    const ParameterView& parameter = parameters[piece.parameter];
    const std::vector<float>& kept = by_parameter_[parameter.key].kept;
    auto* work = static_cast<float*>(parameter.work.data);
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) work[i] += kept[i];
  }
}

void Residuals::keep(std::span<const ParameterView> parameters) {
  for (const ParameterView& parameter : parameters) {
    Residual& residual = by_parameter_[parameter.key];
    std::swap(residual.kept, residual.next);
  }
}

}  // namespace nf
