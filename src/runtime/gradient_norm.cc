// Each block of kBlock values is summed with codec/square_sum.h, the last one padded with zeros,
// and the sums of blocks are added in order. A block with a finite sum contains no NaN or Inf, so
// only the other blocks are checked value by value.
#include "runtime/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "codec/convert.h"
#include "codec/square_sum.h"

namespace nf {
namespace {

constexpr std::size_t kBlock = 2048;

struct Kernels {
  const ConvertKernels& convert;
  SquareSum sum_squares;
};

// All forms give the same bits. make_codec() reports an invalid NF_FORCE_ISA.
const Kernels& kernels() {
  static const Kernels chosen = [] {
    const Expected<Isa> active = active_isa();
    const Isa isa = active ? *active : Isa::kScalar;
    return Kernels{convert_kernels(isa), square_sum(isa)};
  }();
  return chosen;
}

void widen(const std::byte* from, std::size_t count, DataType type, float* to) {
  switch (type) {
    case DataType::kFloat32: std::memcpy(to, from, count * sizeof *to); break;
    case DataType::kBfloat16: kernels().convert.bfloat16_to_float(from, count, to); break;
    case DataType::kFloat16: kernels().convert.float16_to_float(from, count, to); break;
  }
}

}  // namespace

GradientNorm gradient_norm(ConstValues values) {
  const SquareSum sum_squares = kernels().sum_squares;
  const auto* bytes = static_cast<const std::byte*>(values.data);
  const bool is_float = values.type == DataType::kFloat32 &&
                        reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0;
  alignas(64) float staged[kBlock];
  GradientNorm norm;
  for (std::size_t first = 0; first < values.count; first += kBlock) {
    const std::byte* from = bytes + first * size_of(values.type);
    const std::size_t held = std::min(kBlock, values.count - first);
    const float* block = reinterpret_cast<const float*>(from);
    if (!is_float || held < kBlock) {
      widen(from, held, values.type, staged);
      std::fill(staged + held, staged + kBlock, 0.0f);
      block = staged;
    }
    double energy = sum_squares(block, kBlock);
    if (!std::isfinite(energy)) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        const bool is_finite = std::isfinite(block[i]);
        norm.non_finite += is_finite ? 0 : 1;
        staged[i] = is_finite ? block[i] : 0.0f;
      }
      energy = sum_squares(staged, kBlock);
    }
    norm.energy += energy;
  }
  return norm;
}

}  // namespace nf
