// Vector form of the statistics of super-groups, eight at a time, so that their sums are folded in
// parallel.
#include "codec/super_group_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/super_group_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/reduce-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

constexpr std::size_t kRows = 8;
constexpr std::size_t kRowVectors = 16 / kLanes;  // vectors of running sums per row

void statistics(const float* values, std::size_t super_groups, std::byte* out) {
  std::size_t j = 0;
  for (; j + kRows <= super_groups; j += kRows) {
    VF sums[kRows][kRowVectors];
    VF squares[kRows][kRowVectors];
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* from = values + (j + r) * kSuperGroup;
      for (std::size_t v = 0; v < kRowVectors; ++v) {
        sums[r][v] = hn::Zero(DF());
        squares[r][v] = hn::Zero(DF());
      }
      for (std::size_t e = 0; e < kSuperGroup; e += 16) {
        prefetch_ahead(from + e);
        for (std::size_t v = 0; v < kRowVectors; ++v) {
          const VF x = load(from + e + v * kLanes);
          sums[r][v] = hn::Add(sums[r][v], x);
          squares[r][v] = hn::Add(squares[r][v], hn::Mul(x, x));
        }
      }
    }
    float sum[kRows];
    float square[kRows];
    reduce8(AddOp(), sums, sum);
    reduce8(AddOp(), squares, square);
    for (std::size_t r = 0; r < kRows; ++r) {
      const float mean = sum[r] / static_cast<float>(kSuperGroup);
      const float energy = square[r] - sum[r] * mean;
      put_u16(float_to_bfloat16(mean), out + (j + r) * kSuperGroupStatistics);
      put_u16(float_to_bfloat16(energy < 0 ? 0.0f : energy),
              out + (j + r) * kSuperGroupStatistics + 2);
    }
  }
  for (; j < super_groups; ++j) {
    super_group_statistics(values + j * kSuperGroup, kSuperGroup, out + j * kSuperGroupStatistics);
  }
}

constexpr SuperGroupKernels kSuperGroupTable = {statistics};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const SuperGroupKernels& super_group_simd(Isa isa) {
  return *NF_SELECT_TABLE(isa, kSuperGroupTable);
}

}  // namespace nf
#endif
