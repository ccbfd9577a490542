#include "cuda/width_plan.h"

#include <algorithm>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "codec/codes.h"
#include "codec/super_group.h"
#include "cuda/device/pieces.cuh"
#include "cuda/launch.h"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 1024;
constexpr unsigned kBins = 2048;
constexpr std::uint32_t kCodeGroups = kSuperGroup / kGroup;
constexpr std::uint32_t kUnitBytes = 2;
constexpr std::uint32_t kSuper = kSuperGroup;  // in the device's own arithmetic

using Scan = cub::BlockScan<std::uint64_t, kThreads>;
using Reduce = cub::BlockReduce<std::uint64_t, kThreads>;

__device__ std::uint32_t blocks_of(std::uint32_t count) { return (count + kSuper - 1) / kSuper; }

__device__ std::uint32_t held_in(const DevicePiece& piece, std::uint32_t block) {
  return min(kSuper, piece.count - block * kSuper);
}

__device__ std::uint32_t groups_in(std::uint32_t held) {
  return (held + std::uint32_t{kGroup} - 1) / std::uint32_t{kGroup};
}

// Bytes of scales for so many values of one super-group.
__device__ std::uint32_t scales_in(const DeviceWidthRule& rule, std::uint32_t held) {
  const std::uint32_t group = kSuper / rule.scales;
  return (held + group - 1) / group;
}

__device__ std::uint32_t up_to_16(std::uint32_t bytes) { return (bytes + 15) / 16 * 16; }

__device__ std::uint32_t granule_bytes(const DeviceWidthRule& rule, std::uint32_t width) {
  return width == 0 ? 0 : kUnitBytes + rule.scales + kCodeGroups * 4 * width;
}

__device__ std::uint32_t statistics_of(const DevicePiece& piece, std::uint32_t block) {
  return reinterpret_cast<const std::uint32_t*>(piece.statistics)[block];
}

__device__ float mean_in(std::uint32_t statistics) { return __uint_as_float(statistics << 16); }
__device__ float energy_in(std::uint32_t statistics) {
  return __uint_as_float(statistics & 0xffff0000u);
}

// One block a piece: the weight of its super-groups, as codec/width_rule.cc has it.
__global__ void __launch_bounds__(kEnergyLanes)
    weigh_pieces(Need need, const DevicePiece* pieces, const std::uint32_t* piece_count,
                 float* weights) {
  __shared__ float lanes[kEnergyLanes];
  if (piece_count != nullptr && blockIdx.x >= *piece_count) return;
  const DevicePiece piece = pieces[blockIdx.x];
  const std::uint32_t blocks = blocks_of(piece.count);
  float sum = 0;
  for (std::uint32_t j = threadIdx.x; j < blocks; j += kEnergyLanes) {
    const float energy = energy_in(statistics_of(piece, j));
    if (isfinite(energy)) sum = __fadd_rn(sum, energy);
  }
  lanes[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kEnergyLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      lanes[threadIdx.x] = __fadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const float energy = lanes[0];
  const float inverse = energy > 0 ? __fdiv_rn(static_cast<float>(piece.count), energy) : 0.0f;
  weights[blockIdx.x] = need == Need::kEnergyByRoot ? __fsqrt_rn(inverse) : inverse;
}

__device__ std::uint32_t bin_of(float need) {
  if (!(need > 0)) return need == need ? 0 : kBins - 1;
  return __float_as_uint(need) >> 20;
}

struct Demand {
  std::uint32_t bin;
  std::uint32_t groups;
};

// What is common to all threads of a choice.
struct Choice {
  std::uint32_t groups[kBins + 1];  // in a bin and above
  std::uint32_t super_groups[kBins + 1];
  std::uint8_t fits[kBins];
  std::uint8_t wider[kBins];
  int level;
  std::uint64_t spare;
  std::uint64_t carry;
};

__device__ std::uint32_t first_bin(int level, const Rung& rung) {
  return static_cast<std::uint32_t>(min(max(level + rung.threshold, 0), static_cast<int>(kBins)));
}

__device__ std::uint64_t cost(const Rung& rung, std::uint32_t groups, std::uint32_t super_groups) {
  return std::uint64_t{rung.group_bytes} * groups + std::uint64_t{rung.bytes} * super_groups;
}

__device__ std::uint64_t bytes_at(const DeviceWidthRule& rule, const Choice& choice, int level) {
  std::uint64_t bytes = cost(rule.ladder[0], choice.groups[0], choice.super_groups[0]);
  for (std::uint32_t r = 1; r < rule.rungs; ++r) {
    const std::uint32_t bin = first_bin(level, rule.ladder[r]);
    bytes += cost(rule.ladder[r], choice.groups[bin], choice.super_groups[bin]) -
             cost(rule.ladder[r - 1], choice.groups[bin], choice.super_groups[bin]);
  }
  return bytes;
}

__device__ std::uint8_t rung_of(const DeviceWidthRule& rule, std::uint32_t bin, int level) {
  std::uint32_t r = 0;
  while (r + 1 < rule.rungs && bin >= first_bin(level, rule.ladder[r + 1])) ++r;
  return static_cast<std::uint8_t>(r);
}

// The counts of a bin become those of the bin and all above.
__device__ void add_from_above(std::uint32_t* counts, Scan::TempStorage& room) {
  const unsigned high = kBins - 1 - 2 * threadIdx.x;
  const std::uint64_t own = std::uint64_t{counts[high]} + counts[high - 1];
  const std::uint32_t top = counts[high];
  std::uint64_t above = 0;
  Scan(room).ExclusiveSum(own, above);
  __syncthreads();
  counts[high] = static_cast<std::uint32_t>(above + top);
  counts[high - 1] = static_cast<std::uint32_t>(above + own);
  __syncthreads();
}

// One block a job: fill_to_level() of codec/water_level.cc.
__global__ void __launch_bounds__(kThreads)
    choose(DeviceWidthRule rule, const DevicePiece* pieces, const BatchBounds* jobs,
           const float* weights, std::uint64_t capacity, std::uint8_t* widths) {
  __shared__ Choice choice;
  __shared__ union {
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
  } room;
  const BatchBounds job = jobs[blockIdx.x];
  if (job.blocks == 0) return;

  const auto demand_of = [&](std::uint32_t block) {
    const std::uint32_t p =
        job.first_piece + device::piece_of(pieces + job.first_piece, job.piece_count, block);
    const DevicePiece piece = pieces[p];
    const std::uint32_t own = block - piece.first_block;
    const std::uint32_t held = held_in(piece, own);
    const std::uint32_t statistics = statistics_of(piece, own);
    float need = energy_in(statistics);
    if (rule.need == Need::kEnergyAndMean) {
      const float values = __fmul_rn(static_cast<float>(held), static_cast<float>(rule.ranks));
      const float mean = mean_in(statistics);
      need = __fadd_rn(need, __fmul_rn(values, __fmul_rn(mean, mean)));
    } else if (rule.need != Need::kEnergy) {
      need = __fmul_rn(weights[p], need);
    }
    return Demand{bin_of(need), groups_in(held)};
  };

  // What is not for codes.
  std::uint64_t metadata = 0;
  for (std::uint32_t p = threadIdx.x; p < job.piece_count; p += kThreads) {
    const DevicePiece piece = pieces[job.first_piece + p];
    const std::uint32_t whole = piece.count / kSuper;
    const std::uint32_t scales =
        whole * rule.scales + scales_in(rule, piece.count - whole * kSuper);
    metadata += rule.least_width == 0 ? 15
                : piece.count == 0    ? 0
                                      : up_to_16(kUnitBytes * blocks_of(piece.count) + scales);
  }
  metadata = Reduce(room.reduce).Sum(metadata);

  for (unsigned bin = threadIdx.x; bin <= kBins; bin += kThreads) {
    choice.groups[bin] = 0;
    choice.super_groups[bin] = 0;
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < job.blocks; i += kThreads) {
    const Demand demand = demand_of(job.first_block + i);
    atomicAdd(&choice.groups[demand.bin], demand.groups);
    atomicAdd(&choice.super_groups[demand.bin], 1u);
  }
  __syncthreads();
  add_from_above(choice.groups, room.scan);
  add_from_above(choice.super_groups, room.scan);

  if (threadIdx.x == 0) {
    const std::uint64_t bytes = capacity > metadata ? capacity - metadata : 0;
    int low = -rule.ladder[rule.rungs - 1].threshold - 1;
    int high = static_cast<int>(kBins) - rule.ladder[1].threshold;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (bytes_at(rule, choice, middle) <= bytes) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const std::uint64_t used = bytes_at(rule, choice, high);
    choice.level = high;
    choice.spare = bytes > used ? bytes - used : 0;
    choice.carry = 0;
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) {
    choice.fits[bin] = rung_of(rule, bin, choice.level);
    choice.wider[bin] = rung_of(rule, bin, choice.level - 1);
  }
  __syncthreads();

  for (std::uint32_t base = 0; base < job.blocks; base += kThreads) {
    const std::uint32_t i = base + threadIdx.x;
    Demand demand{};
    std::uint64_t extra = 0;
    if (i < job.blocks) {
      demand = demand_of(job.first_block + i);
      extra = cost(rule.ladder[choice.wider[demand.bin]], demand.groups, 1) -
              cost(rule.ladder[choice.fits[demand.bin]], demand.groups, 1);
    }
    std::uint64_t spent = 0;
    std::uint64_t all = 0;
    Scan(room.scan).InclusiveSum(extra, spent, all);
    if (i < job.blocks) {
      const std::uint8_t* rungs = choice.carry + spent <= choice.spare ? choice.wider : choice.fits;
      widths[job.first_block + i] = rule.ladder[rungs[demand.bin]].width;
    }
    __syncthreads();
    if (threadIdx.x == 0) choice.carry += all;
    __syncthreads();
  }
}

// Bytes in the low bits, super-groups that have any in the high ones: one scan for both.
constexpr unsigned kCountShift = 40;

// One block: TileMap::place().
__global__ void __launch_bounds__(kThreads)
    place(DeviceWidthRule rule, WidthTables tables, std::uint64_t share, std::size_t value_size,
          const std::uint8_t* widths) {
  __shared__ Scan::TempStorage room;
  std::uint64_t start = 0;   // of the parameter among the bytes of all; the same in all threads
  std::uint32_t pieces = 0;  // so far; likewise
  for (std::uint32_t p = 0; p < tables.parameter_count; ++p) {
    const DevicePiece parameter = tables.parameters[p];
    const std::uint32_t blocks = blocks_of(parameter.count);
    const std::uint8_t* own = widths + parameter.first_block;
    std::uint64_t before = 0;  // bytes and super-groups of the parameter so far
    for (std::uint32_t base = 0; base < blocks; base += kThreads) {
      const std::uint32_t j = base + threadIdx.x;
      const std::uint32_t width = j < blocks ? own[j] : 0;
      const std::uint64_t bytes = granule_bytes(rule, width);
      std::uint64_t sum = 0;
      std::uint64_t all = 0;
      Scan(room).ExclusiveSum(bytes | std::uint64_t{width != 0} << kCountShift, sum, all);
      __syncthreads();
      const std::uint64_t mask = (std::uint64_t{1} << kCountShift) - 1;
      const std::uint64_t offset = start + ((before + sum) & mask);
      const auto tile_at = [&](std::uint64_t at) {
        const std::uint64_t tile = at / share;
        return tile < tables.tiles ? static_cast<std::uint32_t>(tile) : tables.tiles - 1;
      };
      const std::uint32_t tile = tile_at(offset);
      const bool is_first =
          j < blocks && (j == 0 || tile_at(offset - granule_bytes(rule, own[j - 1])) != tile);
      std::uint64_t index = 0;
      std::uint64_t found = 0;
      Scan(room).ExclusiveSum(std::uint64_t{is_first}, index, found);
      __syncthreads();
      if (is_first) {
        const std::uint32_t at = pieces + static_cast<std::uint32_t>(index);
        tables.pieces[at] = {
            .values =
                static_cast<std::byte*>(parameter.values) + std::size_t{j} * kSuper * value_size,
            .statistics = parameter.statistics + std::size_t{j} * kSuperGroupStatistics,
            .parameter = parameter.parameter,
            .first = std::uint64_t{j} * kSuper,
            .first_block = parameter.first_block + j};
        tables.piece_parameter[at] = p;
        tables.piece_tile[at] = tile;
      }
      pieces += static_cast<std::uint32_t>(found);
      before += all;
    }
    if (blocks == 0) continue;
    // Its message as a whole: the last super-group may hold fewer values.
    const std::uint32_t sent = static_cast<std::uint32_t>(before >> kCountShift);
    const std::uint32_t last = own[blocks - 1];
    const std::uint32_t held = held_in(parameter, blocks - 1);
    std::uint64_t codes = (before & ((std::uint64_t{1} << kCountShift) - 1)) -
                          std::uint64_t{sent} * (kUnitBytes + rule.scales);
    std::uint64_t scales = std::uint64_t{sent} * rule.scales;
    if (last != 0) {
      codes -= (kCodeGroups - groups_in(held)) * 4 * last;
      scales -= rule.scales - scales_in(rule, held);
    }
    start += (std::uint64_t{kUnitBytes} * sent + scales + 15) / 16 * 16 + codes;
  }
  __syncthreads();

  // From where pieces start follows how long they are, and which tiles they lie in.
  for (std::uint32_t k = threadIdx.x; k < pieces; k += kThreads) {
    const std::uint32_t p = tables.piece_parameter[k];
    const bool is_last = k + 1 == pieces || tables.piece_parameter[k + 1] != p;
    const std::uint64_t end = is_last ? tables.parameters[p].count : tables.pieces[k + 1].first;
    tables.pieces[k].count = static_cast<std::uint32_t>(end - tables.pieces[k].first);
    const std::uint32_t from = k == 0 ? 0 : tables.piece_tile[k - 1] + 1;
    for (std::uint32_t tile = from; tile <= tables.piece_tile[k]; ++tile) {
      tables.bounds[tile] = {.first_piece = k, .first_block = tables.pieces[k].first_block};
    }
  }
  const std::uint32_t used = pieces == 0 ? 0 : tables.piece_tile[pieces - 1] + 1;
  for (std::uint32_t tile = used + threadIdx.x; tile < tables.tiles; tile += kThreads) {
    tables.bounds[tile] = {.first_piece = pieces, .first_block = tables.super_groups};
  }
  if (threadIdx.x == 0) *tables.piece_count = pieces;
  __syncthreads();
  for (std::uint32_t tile = threadIdx.x; tile < tables.tiles; tile += kThreads) {
    const bool is_last = tile + 1 == tables.tiles;
    BatchBounds& bounds = tables.bounds[tile];
    bounds.piece_count =
        (is_last ? pieces : tables.bounds[tile + 1].first_piece) - bounds.first_piece;
    bounds.blocks =
        (is_last ? tables.super_groups : tables.bounds[tile + 1].first_block) - bounds.first_block;
  }
}

// One block a tile.
__global__ void __launch_bounds__(kThreads)
    lay_out(DeviceWidthRule rule, const DevicePiece* pieces, const BatchBounds* tiles,
            const std::uint8_t* widths, SuperGroupPlace* places) {
  __shared__ union {
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
  } room;
  __shared__ std::uint64_t whole;
  const BatchBounds tile = tiles[blockIdx.x];
  std::uint32_t base = 0;  // of the piece in the message
  for (std::uint32_t p = tile.first_piece; p < tile.first_piece + tile.piece_count; ++p) {
    const DevicePiece piece = pieces[p];
    const std::uint32_t blocks = blocks_of(piece.count);
    // Bytes of codes in the low half, super-groups that have any in the high one.
    const auto share_of = [&](std::uint32_t j) -> std::uint64_t {
      const std::uint32_t width = widths[piece.first_block + j];
      if (width == 0) return 0;
      return groups_in(held_in(piece, j)) * 4 * width | std::uint64_t{1} << 32;
    };
    std::uint64_t sum = 0;
    for (std::uint32_t j = threadIdx.x; j < blocks; j += kThreads) sum += share_of(j);
    sum = Reduce(room.reduce).Sum(sum);
    if (threadIdx.x == 0) whole = sum;
    __syncthreads();
    const auto sent = static_cast<std::uint32_t>(whole >> 32);
    std::uint32_t scales = sent * rule.scales;
    if (blocks > 0 && widths[piece.first_block + blocks - 1] != 0) {
      scales -= rule.scales - scales_in(rule, held_in(piece, blocks - 1));
    }
    const std::uint32_t scales_at = base + kUnitBytes * sent;
    const std::uint32_t codes_at = base + up_to_16(kUnitBytes * sent + scales);

    std::uint64_t before = 0;
    for (std::uint32_t first = 0; first < blocks; first += kThreads) {
      const std::uint32_t j = first + threadIdx.x;
      std::uint64_t own = 0;
      std::uint64_t all = 0;
      Scan(room.scan).ExclusiveSum(j < blocks ? share_of(j) : 0, own, all);
      if (j < blocks) {
        own += before;
        const auto index = static_cast<std::uint32_t>(own >> 32);
        places[piece.first_block + j] = {.units = base + kUnitBytes * index,
                                         .scales = scales_at + rule.scales * index,
                                         .codes = codes_at + static_cast<std::uint32_t>(own),
                                         .width = widths[piece.first_block + j]};
      }
      before += all;
      __syncthreads();
    }
    base = codes_at + static_cast<std::uint32_t>(whole);
    __syncthreads();
  }
}

bool is_weighted(Need need) {
  return need == Need::kEnergyByRoot || need == Need::kEnergyByParameter;
}

}  // namespace

DeviceWidthRule::DeviceWidthRule(const SuperGroupCodec& codec, SumOrder order)
    : scales(static_cast<std::uint32_t>(kSuperGroup / codec.format().group)),
      least_width(codec.format().least_width),
      ranks(order.ranks) {
  const WidthRule rule = codec.width_rule(order);
  need = rule.need;
  rungs = static_cast<std::uint32_t>(std::min(rule.ladder.size(), kMostRungs));
  std::copy_n(rule.ladder.begin(), rungs, ladder);
}

Status choose_widths(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t capacity,
                     std::uint8_t* widths, cudaStream_t stream) {
  if (is_weighted(rule.need)) {
    NF_RETURN_IF_ERROR(launch("weigh_pieces", weigh_pieces, tables.parameter_count, kEnergyLanes,
                              stream, rule.need, tables.parameters, nullptr, tables.weights));
  }
  return launch("choose", choose, 1, kThreads, stream, rule, tables.parameters, tables.whole,
                tables.weights, capacity, widths);
}

Status place_tiles(const DeviceWidthRule& rule, const WidthTables& tables, std::uint64_t share,
                   std::size_t value_size, const std::uint8_t* widths, cudaStream_t stream) {
  return launch("place", place, 1, kThreads, stream, rule, tables, share, value_size, widths);
}

Status choose_tile_widths(const DeviceWidthRule& rule, const WidthTables& tables,
                          std::uint64_t capacity, std::uint8_t* widths, cudaStream_t stream) {
  if (is_weighted(rule.need)) {
    NF_RETURN_IF_ERROR(launch("weigh_pieces", weigh_pieces, tables.parameter_count + tables.tiles,
                              kEnergyLanes, stream, rule.need, tables.pieces, tables.piece_count,
                              tables.weights));
  }
  return launch("choose", choose, tables.tiles, kThreads, stream, rule, tables.pieces,
                tables.bounds, tables.weights, capacity, widths);
}

Status lay_out_tiles(const DeviceWidthRule& rule, const WidthTables& tables,
                     const std::uint8_t* widths, SuperGroupPlace* places, cudaStream_t stream) {
  return launch("lay_out", lay_out, tables.tiles, kThreads, stream, rule, tables.pieces,
                tables.bounds, widths, places);
}

}  // namespace nf::cuda
