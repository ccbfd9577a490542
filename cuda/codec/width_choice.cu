// Chooses the widths of super-groups: codec/width_rule.cc and codec/water_level.cc on a device.
#include <algorithm>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/width_rule.cuh"

namespace nf::cuda {
namespace {

using device::blocks_of;
using device::held_in;
using device::kSuper;
using device::kUnitBytes;
using device::packs_in;
using device::Reduce;
using device::scales_in;
using device::Scan;
using device::up_to_16;

constexpr unsigned kThreads = device::kPlanThreads;
constexpr unsigned kBins = 2048;

__device__ std::uint32_t statistics_of(const DevicePiece& piece, std::uint32_t block) {
  return reinterpret_cast<const std::uint32_t*>(piece.statistics)[block];
}

__device__ float mean_in(std::uint32_t statistics) { return __uint_as_float(statistics << 16); }
__device__ float energy_in(std::uint32_t statistics) {
  return __uint_as_float(statistics & 0xffff0000u);
}

// The weights of pieces, one thread block per piece: the same as in codec/width_rule.cc.
__global__ void __launch_bounds__(kEnergyLanes)
    compute_weights(Need need, const DevicePiece* pieces, float* weights) {
  __shared__ float lanes[kEnergyLanes];
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
  const float r = fminf(inverse, std::numeric_limits<float>::max());
  weights[blockIdx.x] = need == Need::kEnergyByRoot ? __fsqrt_rn(r) : r;
}

__device__ std::uint32_t bin_of(float need) {
  if (!(need > 0)) return need == need ? 0 : kBins - 1;
  return __float_as_uint(need) >> 20;
}

struct Demand {
  std::uint32_t bin;
  std::uint32_t packs;
};

// Shared by all threads of a choice.
struct Choice {
  std::uint32_t packs[kBins + 1];  // in a bin and all bins above
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

__device__ std::uint64_t cost(const Rung& rung, std::uint32_t packs, std::uint32_t super_groups) {
  return std::uint64_t{rung.pack_bytes} * packs + std::uint64_t{rung.bytes} * super_groups;
}

__device__ std::uint64_t bytes_at(const DeviceWidthRule& rule, const Choice& choice, int level) {
  std::uint64_t bytes = cost(rule.ladder[0], choice.packs[0], choice.super_groups[0]);
  for (std::uint32_t r = 1; r < rule.rungs; ++r) {
    const std::uint32_t bin = first_bin(level, rule.ladder[r]);
    bytes += cost(rule.ladder[r], choice.packs[bin], choice.super_groups[bin]) -
             cost(rule.ladder[r - 1], choice.packs[bin], choice.super_groups[bin]);
  }
  return bytes;
}

__device__ std::uint8_t rung_of(const DeviceWidthRule& rule, std::uint32_t bin, int level) {
  std::uint32_t r = 0;
  while (r + 1 < rule.rungs && bin >= first_bin(level, rule.ladder[r + 1])) ++r;
  return static_cast<std::uint8_t>(r);
}

// Suffix sums: each count becomes the count of its bin and all bins above.
__device__ void add_suffix_sums(std::uint32_t* counts, Scan::TempStorage& temp) {
  const unsigned high = kBins - 1 - 2 * threadIdx.x;
  const std::uint64_t own = std::uint64_t{counts[high]} + counts[high - 1];
  const std::uint32_t top = counts[high];
  std::uint64_t above = 0;
  Scan(temp).ExclusiveSum(own, above);
  __syncthreads();
  counts[high] = static_cast<std::uint32_t>(above + top);
  counts[high - 1] = static_cast<std::uint32_t>(above + own);
  __syncthreads();
}

// Super-groups whose widths are chosen together, by one thread block.
struct Job {
  BatchBounds bounds;
  std::uint64_t capacity = 0;  // bytes
  bool is_kept = false;        // the widths do not change
};

struct BudgetJobs {
  const WidthBudget* budgets;
  std::uint32_t hop;

  __device__ Job operator[](std::uint32_t i) const {
    return {budgets[i].parameters, budgets[i].capacity, budgets[i].hop != hop};
  }
};

struct TileJobs {
  const BatchBounds* tiles;
  const std::uint64_t* capacities;

  __device__ Job operator[](std::uint32_t i) const {
    return {tiles[i], capacities[i], capacities[i] == kKeepWidths};
  }
};

// One thread block per job: fill_to_level() of codec/water_level.cc.
template <typename Jobs>
__global__ void __launch_bounds__(kThreads)
    choose(DeviceWidthRule rule, const DevicePiece* pieces, Jobs jobs, const float* weights,
           std::uint8_t* widths) {
  __shared__ Choice choice;
  __shared__ union {
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
  } temp;
  const Job this_job = jobs[blockIdx.x];
  const BatchBounds job = this_job.bounds;
  if (this_job.is_kept || job.blocks == 0) return;

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
    return Demand{bin_of(need), packs_in(rule, held)};
  };

  // Bytes that are not codes.
  std::uint64_t metadata = 0;
  for (std::uint32_t p = threadIdx.x; p < job.piece_count; p += kThreads) {
    const DevicePiece piece = pieces[job.first_piece + p];
    const std::uint32_t whole = piece.count / kSuper;
    const std::uint32_t scales =
        whole * rule.scales + scales_in(rule, piece.count - whole * kSuper);
    metadata += rule.min_width == 0 ? 15
                : piece.count == 0  ? 0
                                    : up_to_16(kUnitBytes * blocks_of(piece.count) + scales);
  }
  metadata = Reduce(temp.reduce).Sum(metadata);

  for (unsigned bin = threadIdx.x; bin <= kBins; bin += kThreads) {
    choice.packs[bin] = 0;
    choice.super_groups[bin] = 0;
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < job.blocks; i += kThreads) {
    const Demand demand = demand_of(job.first_block + i);
    atomicAdd(&choice.packs[demand.bin], demand.packs);
    atomicAdd(&choice.super_groups[demand.bin], 1u);
  }
  __syncthreads();
  add_suffix_sums(choice.packs, temp.scan);
  add_suffix_sums(choice.super_groups, temp.scan);

  if (threadIdx.x == 0) {
    const std::uint64_t bytes = this_job.capacity > metadata ? this_job.capacity - metadata : 0;
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
      extra = cost(rule.ladder[choice.wider[demand.bin]], demand.packs, 1) -
              cost(rule.ladder[choice.fits[demand.bin]], demand.packs, 1);
    }
    std::uint64_t spent = 0;
    std::uint64_t all = 0;
    Scan(temp.scan).InclusiveSum(extra, spent, all);
    if (i < job.blocks) {
      const std::uint8_t* rungs = choice.carry + spent <= choice.spare ? choice.wider : choice.fits;
      widths[job.first_block + i] = rule.ladder[rungs[demand.bin]].width;
    }
    __syncthreads();
    if (threadIdx.x == 0) choice.carry += all;
    __syncthreads();
  }
}

bool is_weighted(Need need) {
  return need == Need::kEnergyByRoot || need == Need::kEnergyByParameter;
}

}  // namespace

DeviceWidthRule::DeviceWidthRule(const SuperGroupCodec& codec, SumOrder order)
    : pads_packs(codec.format().pads_packs),
      min_width(codec.format().min_width),
      ranks(order.ranks) {
  const std::size_t per_byte = codec.format().values_per_scale_byte;
  if (per_byte != 0) scales = static_cast<std::uint32_t>(kSuperGroup / per_byte);
  const WidthRule rule = codec.width_rule(order);
  need = rule.need;
  rungs = static_cast<std::uint32_t>(std::min(rule.ladder.size(), kMaxRungs));
  std::copy_n(rule.ladder.begin(), rungs, ladder);
}

Status choose_widths(const DeviceWidthRule& rule, const WidthTables& tables, std::uint32_t hop,
                     std::uint8_t* widths, cudaStream_t stream) {
  if (is_weighted(rule.need)) {
    NF_RETURN_IF_ERROR(launch("compute_weights", compute_weights, tables.parameter_count,
                              kEnergyLanes, stream, rule.need, tables.parameters, tables.weights));
  }
  return launch("choose", choose<BudgetJobs>, tables.budget_count, kThreads, stream, rule,
                tables.parameters, BudgetJobs{tables.budgets, hop}, tables.weights, widths);
}

Status choose_tile_widths(const DeviceWidthRule& rule, const WidthTables& tables,
                          const std::uint64_t* capacities, std::uint8_t* widths,
                          cudaStream_t stream) {
  if (is_weighted(rule.need)) {
    NF_RETURN_IF_ERROR(launch("compute_weights", compute_weights,
                              tables.parameter_count + tables.tiles, kEnergyLanes, stream,
                              rule.need, tables.pieces, tables.weights));
  }
  return launch("choose", choose<TileJobs>, tables.tiles, kThreads, stream, rule, tables.pieces,
                TileJobs{tables.bounds, capacities}, tables.weights, widths);
}

}  // namespace nf::cuda
