#include "codec/super_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "codec/super_group_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {

void super_group_statistics(const float* values, std::size_t count, std::byte* out) {
  // Sixteen running sums, folded in halves.
  float sums[16] = {};
  float squares[16] = {};
  for (std::size_t i = 0; i < count; ++i) {
    sums[i % 16] += values[i];
    squares[i % 16] += values[i] * values[i];
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
      squares[i] += squares[i + half];
    }
  }
  const float mean = sums[0] / static_cast<float>(count);
  const float energy = squares[0] - sums[0] * mean;
  put_u16(float_to_bfloat16(mean), out);
  put_u16(float_to_bfloat16(energy < 0 ? 0.0f : energy), out + 2);
}

void combine_super_group_statistics(std::size_t count,
                                    std::span<const std::span<const std::byte>> by_rank,
                                    std::span<std::byte> combined) {
  const auto ranks = static_cast<float>(by_rank.size());
  for (std::size_t j = 0; j < super_groups_of(count); ++j) {
    const std::size_t at = j * kSuperGroupStatistics;
    float mean = 0;
    float energy = 0;
    for (const auto& rank : by_rank) {
      mean += bfloat16_to_float(get_u16(rank.data() + at));
      energy += bfloat16_to_float(get_u16(rank.data() + at + 2));
    }
    mean /= ranks;
    const auto values = static_cast<float>(std::min(kSuperGroup, count - j * kSuperGroup));
    const float summed = mean * ranks;
    const bool worth_removing = values * summed * summed * 32.0f >= energy;
    std::uint16_t bits = float_to_bfloat16(mean);
    const bool zero = (bits & 0x7fff) == 0;  // also -0: removing the mean must not turn +0 into -0
    if (!std::isfinite(mean) || !worth_removing || zero) bits = 0;
    put_u16(bits, combined.data() + at);
    put_u16(float_to_bfloat16(energy), combined.data() + at + 2);
  }
}

namespace {

void statistics(const float* values, std::size_t super_groups, std::byte* out) {
  for (std::size_t j = 0; j < super_groups; ++j) {
    super_group_statistics(values + j * kSuperGroup, kSuperGroup, out + j * kSuperGroupStatistics);
  }
}

constexpr SuperGroupKernels kReference = {statistics};

}  // namespace

const SuperGroupKernels& super_group_kernels(Isa isa) {
  return isa == Isa::kScalar ? kReference : super_group_simd(isa);
}

}  // namespace nf
