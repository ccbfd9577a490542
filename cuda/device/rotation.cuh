// The rotation of rotated (docs/codecs/rotated.md) for lanes that hold two runs of eight values
// (super_group.cuh): sixteen values a lane, sixteen lanes a super-group.
//
// Registers hold the bits 0 to 2 and 4 of an element's number, lanes the others. A transposition in
// shared memory exchanges the two, so that all butterflies are within a lane.
#pragma once

#include <cstdint>

#include "codec/rotated/rotated_kernels.h"
#include "cuda/device/super_group.cuh"

namespace nf::device {

inline constexpr int kRotatedRun = 8;
using RotatedLane = Lane<kRotatedRun>;
inline constexpr int kRotatedValues = 2 * kRotatedRun;  // per lane
static_assert(RotatedLane::kTeam == kRotatedValues);

// Value k of the run in the half `half` of a pack is number k + 8 * half.
using RotatedValues = float[kRotatedValues];

__device__ __forceinline__ void load_runs(const Runs<kRotatedRun>& runs, RotatedValues& x) {
#pragma unroll
  for (int k = 0; k < kRotatedRun; ++k) {
    x[k] = runs.low[k];
    x[kRotatedRun + k] = runs.high[k];
  }
}

template <int kHalf>
__device__ __forceinline__ void butterflies(RotatedValues& x) {
#pragma unroll
  for (int i = 0; i < kRotatedValues; ++i) {
    if ((i & kHalf) != 0) continue;
    const float a = x[i];
    const float b = x[i + kHalf];
    x[i] = a + b;
    x[i + kHalf] = a - b;
  }
}

// Negates x if `bit` of `word` is set.
__device__ __forceinline__ void negate_where(std::uint32_t word, int bit, float& x) {
  x = __uint_as_float(__float_as_uint(x) ^ (word << (31 - bit) & 0x80000000u));
}

// Exchanges value i of lane j and value j of lane i of a team.
__device__ __forceinline__ void transpose(const RotatedLane& lane, RotatedValues& x) {
  constexpr int kStride = kRotatedValues + 1;  // avoids bank conflicts
  __shared__ float buffers[kSuperGroupThreads / RotatedLane::kTeam][kRotatedValues * kStride];
  float* const buffer = buffers[threadIdx.x / RotatedLane::kTeam];
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kRotatedValues; ++i) buffer[lane.index * kStride + i] = x[i];
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kRotatedValues; ++i) x[i] = buffer[i * kStride + lane.index];
}

// The signs of both rounds, one word of draws per lane of a team.
struct RotationSigns {
  std::uint32_t own = 0;  // word lane.index: rounds 0 and 1, eight packs each

  __device__ __forceinline__ RotationSigns(std::uint32_t start, std::uint32_t twist,
                                           const RotatedLane& lane) {
    DrawKey key{DrawStream(0, 0, 0, 0, DrawPurpose::kRotation), 0};
    key.start = start;
    key.twist = twist;
    own = draw_word(key, lane.index);
  }

  // Round 0, for the values of a lane.
  __device__ __forceinline__ void flip(const RotatedLane& lane, RotatedValues& x) const {
    const std::uint32_t word = from_lane<RotatedLane::kTeam>(own, lane.pack) >> lane.first;
#pragma unroll
    for (int k = 0; k < kRotatedRun; ++k) {
      negate_where(word, k, x[k]);
      negate_where(word, k + 16, x[kRotatedRun + k]);
    }
  }

  // Round 1, for transposed values: value i belongs to lane i, and this lane holds the values of
  // number lane.index.
  __device__ __forceinline__ void flip_transposed(const RotatedLane& lane, RotatedValues& x) const {
    const unsigned bit = lane.index + (lane.index & 8u);  // k + 16 * half
#pragma unroll
    for (int p = 0; p < static_cast<int>(kSuperGroupPacks); ++p) {
      const std::uint32_t word =
          from_lane<RotatedLane::kTeam>(own, kSuperGroupPacks + static_cast<unsigned>(p)) >> bit;
      negate_where(word, 0, x[2 * p]);
      negate_where(word, kRotatedRun, x[2 * p + 1]);
    }
  }
};

// Both halves of a rotation without its outer signs: those of round 0 come before it if values are
// rotated, and after it if they are rotated back.
__device__ __forceinline__ void rotate(const RotatedLane& lane, const RotationSigns& signs,
                                       RotatedValues& x) {
  butterflies<8>(x);
  butterflies<1>(x);
  butterflies<2>(x);
  butterflies<4>(x);
  transpose(lane, x);
  butterflies<1>(x);
  butterflies<2>(x);
  butterflies<4>(x);
  butterflies<8>(x);
  signs.flip_transposed(lane, x);
  butterflies<8>(x);
  butterflies<4>(x);
  butterflies<2>(x);
  butterflies<1>(x);
  transpose(lane, x);
  butterflies<4>(x);
  butterflies<2>(x);
  butterflies<1>(x);
  butterflies<8>(x);
}

// The sum over all values of a team, in the order of kRotatedBits; every lane gets it.
__device__ __forceinline__ float sum_of_team(const RotatedValues& terms) {
  float sums[kRotatedRun];
#pragma unroll
  for (int k = 0; k < kRotatedRun; ++k) sums[k] = terms[k] + terms[kRotatedRun + k];
#pragma unroll
  for (int half = 1; half < kRotatedRun; half *= 2) {
#pragma unroll
    for (int k = 0; k < kRotatedRun; k += 2 * half) sums[k] += sums[k + half];
  }
  float sum = sums[0];
#pragma unroll
  for (int distance = 1; distance < kRotatedValues; distance *= 2) {
    sum += from_neighbour(sum, distance);
  }
  return sum;
}

}  // namespace nf::device
