// How the super-groups of a batch are distributed over warps, for waterfill, dynamiq and rotated.
//
// In every pack of 32 elements a lane holds a run of kRun elements in the first half and the run
// 16 elements later: elements that share a draw word, or a byte in the plane of four bits, are in
// one lane. 2 or 4 lanes share a pack, 16 or 32 (a team) a super-group. A warp processes up to 32
// consecutive super-groups of one piece, one per team at a time, so its accesses are contiguous.
// Before that, each lane computes the parameters of one super-group (keys of draws, mean, unit,
// offsets) and stores them in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/super_group.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/values.cuh"
#include "cuda/device/warp.cuh"

namespace nf::device {

inline constexpr unsigned kSuperGroupThreads = 256;
inline constexpr unsigned kSuperGroupPacks = kSuperGroup / kPack;

// The super-groups of one launch.
struct SuperGroupJob {
  const cuda::DevicePiece* pieces = nullptr;
  std::uint32_t piece_count = 0;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t per_warp = 1;  // super-groups, at most 32
  const cuda::BatchBounds* bounds = nullptr;
  std::uint64_t step_key = 0;

  // Loads the bounds if they are in device memory.
  __device__ __forceinline__ void load_bounds() {
    if (bounds == nullptr) return;
    const cuda::BatchBounds own = *bounds;
    pieces += own.first_piece;
    piece_count = own.piece_count;
    first_block = own.first_block;
    blocks = own.blocks;
  }
};

template <typename Byte>
struct SuperGroupMessage {
  Byte* bytes = nullptr;
  std::uint32_t encoder = 0;
  float contributions = 0;
};

enum class SuperGroupOp { kEncode, kDecode, kDecodeAdd, kDecodeAddEncode };

// Messages of one layout to add to the values.
struct SuperGroupFolded {
  std::uint32_t count = 0;
  SuperGroupMessage<const std::byte> messages[cuda::DeviceCodec::kMaxFolded];
};

__device__ __forceinline__ float unit_of(const std::byte* message, std::uint32_t at) {
  return bfloat16_to_float(*reinterpret_cast<const std::uint16_t*>(message + at));
}

// The position of this thread's lane in its team.
template <int kRunLength>
struct Lane {
  static constexpr int kRun = kRunLength;
  static constexpr unsigned kPackLanes = 16 / kRun;
  static constexpr unsigned kTeam = kSuperGroupPacks * kPackLanes;  // lanes
  static constexpr unsigned kTeams = kWarp / kTeam;

  unsigned team = threadIdx.x % kWarp / kTeam;
  unsigned index = threadIdx.x % kTeam;
  unsigned pack = index / kPackLanes;  // in the super-group
  unsigned part = index % kPackLanes;
  unsigned first = part * kRun;             // element in the pack
  unsigned element = pack * kPack + first;  // in the super-group
};

// Up to 32 super-groups of one piece. Team t processes super-groups t, t + teams, ... in `each`
// rounds; in the last round it may have none.
struct Segment {
  cuda::DevicePiece piece;
  std::uint32_t piece_index = 0;
  std::uint32_t block = 0;  // in the batch
  std::uint32_t first = 0;  // the same super-group in the piece
  std::uint32_t count = 0;
  std::uint32_t each = 0;

  // The values of super-group i from `element` on.
  template <DataType kType>
  __device__ std::byte* values(std::uint32_t i, unsigned element) const {
    auto* all = static_cast<std::byte*>(piece.values);
    __builtin_assume(__isGlobal(all));
    return all + (std::size_t{first + i} * kSuperGroup + element) * size_of(kType);
  }
  // The combined mean and energy of super-group i, as two BF16 numbers; 0 without statistics.
  __device__ std::uint32_t statistics(std::uint32_t i) const {
    if (piece.statistics == nullptr) return 0;
    return reinterpret_cast<const std::uint32_t*>(piece.statistics)[first + i];
  }
  __device__ float mean(std::uint32_t i) const { return __uint_as_float(statistics(i) << 16); }
  // The index of super-group i in its parameter, for the keys of its draws.
  __device__ std::uint64_t block_in_parameter(std::uint32_t i) const {
    return piece.first / kSuperGroup + first + i;
  }
  // Rounds in which every team has a whole super-group.
  __device__ std::uint32_t whole_of(unsigned teams) const {
    return min(count, piece.count / static_cast<std::uint32_t>(kSuperGroup) - first) / teams;
  }
  // Values of super-group i of the segment; 0 after its end.
  __device__ std::uint32_t held(std::uint32_t i) const {
    if (i >= count) return 0;
    return min(static_cast<std::uint32_t>(kSuperGroup),
               piece.count - (first + i) * static_cast<std::uint32_t>(kSuperGroup));
  }
  __device__ bool ends_piece() const {
    return (first + count) * static_cast<std::uint64_t>(kSuperGroup) >= piece.count;
  }
};

// Calls work(segment) for all segments of this warp.
template <unsigned kTeams, typename Work>
__device__ __forceinline__ void for_each_segment(const SuperGroupJob& job, Work work) {
  const std::uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  std::uint32_t block = job.first_block + min(warp * job.per_warp, job.blocks);
  const std::uint32_t end = min(block + job.per_warp, job.first_block + job.blocks);
  while (block < end) {
    Segment segment;
    segment.piece_index = piece_of(job.pieces, job.piece_count, block);
    segment.piece = job.pieces[segment.piece_index];
    segment.block = block;
    segment.first = block - segment.piece.first_block;
    segment.count = min(end - block, segment.piece.count / static_cast<unsigned>(kSuperGroup) +
                                         (segment.piece.count % kSuperGroup != 0) - segment.first);
    segment.each = (segment.count + kTeams - 1) / kTeams;
    work(static_cast<const Segment&>(segment));
    block += segment.count;
  }
}

// A lane's values: its first run and the run 16 elements later.
template <int kRun>
struct Runs {
  float low[kRun];
  float high[kRun];
};

// The bits of a lane's two runs of values, with loads and stores. In a super-group that is not
// whole, elements after the `held` values read as zeros and are not written.
template <DataType kType, int kRun>
struct RunWords {
  static constexpr int kWords = kValueWords<kType, kRun>;
  static constexpr std::size_t kHalf = kPack / 2;
  std::uint32_t low[kWords];
  std::uint32_t high[kWords];

  template <bool kWhole>
  __device__ __forceinline__ void load(const std::byte* values, int held) {
    if constexpr (kWhole) {
      load_words(values, low);
      load_words(values + kHalf * size_of(kType), high);
    } else {
      load_words_before<kType>(values, 0, held, low);
      load_words_before<kType>(values, kHalf, held - static_cast<int>(kHalf), high);
    }
  }
  template <bool kWhole>
  __device__ __forceinline__ void store(std::byte* values, int held) const {
    if constexpr (kWhole) {
      store_words(low, values);
      store_words(high, values + kHalf * size_of(kType));
    } else {
      store_words_before<kType>(low, values, 0, held);
      store_words_before<kType>(high, values, kHalf, held - static_cast<int>(kHalf));
    }
  }
  __device__ __forceinline__ void widen_to(Runs<kRun>& values) const {
    widen<kType>(low, values.low);
    widen<kType>(high, values.high);
  }
  // If `may_be_nan`, a NaN becomes the CPU's canonical NaN.
  __device__ __forceinline__ void narrow_from(const Runs<kRun>& values, bool may_be_nan) {
    narrow_numbers<kType>(values.low, low);
    narrow_numbers<kType>(values.high, high);
    if (may_be_nan) {
      canonical_nans<kType>(low);
      canonical_nans<kType>(high);
    }
  }
};

// The peak of a group, the 16 elements that share a scale: even lanes get that of the first group
// of their pack, odd lanes that of the second.
template <int kRun>
__device__ __forceinline__ std::uint32_t group_peak(unsigned part, const Runs<kRun>& centred) {
  float low = 0;
  float high = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    low = max_magnitude(low, centred.low[k]);
    high = max_magnitude(high, centred.high[k]);
  }
  const bool is_odd = part % 2 != 0;
  const float other = from_neighbour(is_odd ? low : high, 1);
  std::uint32_t peak = max(__float_as_uint(is_odd ? high : low), __float_as_uint(other));
  if constexpr (kRun == 4) peak = max(peak, from_neighbour(peak, 2));
  return peak;
}

// Gives every lane the numbers of the even lane (low) and of the odd lane (high).
__device__ __forceinline__ void exchange(unsigned part, float own, float& low, float& high) {
  const float other = from_neighbour(own, 1);
  low = part % 2 != 0 ? other : own;
  high = part % 2 != 0 ? own : other;
}

// Subtracts the mean from the values; elements after this lane's `held` values become zero.
template <bool kWhole, int kRun>
__device__ __forceinline__ void centre(float mean, int held, Runs<kRun>& values) {
  // Also if the mean is 0: a branch costs more register copies than it saves.
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    values.low[k] -= mean;
    values.high[k] -= mean;
  }
  if constexpr (!kWhole) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      if (k >= held) values.low[k] = 0;
      if (k + static_cast<int>(kPack / 2) >= held) values.high[k] = 0;
    }
  }
}

}  // namespace nf::device
