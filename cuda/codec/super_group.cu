#include "cuda/codec/super_group.h"

#include "cuda/device/draws.cuh"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kChains = 4;  // running sums per lane, of the sixteen
constexpr unsigned kTeam = 16 / kChains;

// Four lanes per super-group: each has four of the running sums, and the four read rows of sixteen
// values.
template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    compute_statistics(const DevicePiece* pieces, std::uint32_t piece_count, std::uint32_t blocks,
                       std::byte* out) {
  const std::uint32_t block = (blockIdx.x * blockDim.x + threadIdx.x) / kTeam;
  const unsigned first = threadIdx.x % kTeam * kChains;
  float sums[kChains] = {};
  float squares[kChains] = {};
  std::uint32_t held = 0;
  if (block < blocks) {
    const DevicePiece piece = pieces[device::piece_of(pieces, piece_count, block)];
    const std::size_t start = std::size_t{block - piece.first_block} * kSuperGroup;
    held = min(static_cast<std::uint32_t>(kSuperGroup),
               piece.count - static_cast<std::uint32_t>(start));
    if (held == kSuperGroup) {
#pragma unroll
      for (unsigned row = 0; row < 16; ++row) {
        float x[kChains];
        device::load_values<kType>(piece.values, start + 16 * row + first, x);
#pragma unroll
        for (unsigned k = 0; k < kChains; ++k) {
          sums[k] += x[k];
          squares[k] += x[k] * x[k];
        }
      }
    } else {
      for (unsigned row = 0; 16 * row < held; ++row) {
#pragma unroll
        for (unsigned k = 0; k < kChains; ++k) {
          const unsigned at = 16 * row + first + k;
          if (at >= held) continue;
          const float x = device::load_value<kType>(piece.values, start + at);
          sums[k] += x;
          squares[k] += x * x;
        }
      }
    }
  }
#pragma unroll
  for (int half = 2; half > 0; half /= 2) {
#pragma unroll
    for (unsigned k = 0; k < kChains; ++k) {
      sums[k] += device::from_neighbour(sums[k], half);
      squares[k] += device::from_neighbour(squares[k], half);
    }
  }
  if (block >= blocks || first != 0) return;
  const float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  const float square = (squares[0] + squares[2]) + (squares[1] + squares[3]);
  const float mean = __fdiv_rn(sum, static_cast<float>(held));
  const float energy = square - sum * mean;
  reinterpret_cast<std::uint32_t*>(out)[block] =
      float_to_bfloat16(mean) | std::uint32_t{float_to_bfloat16(energy < 0 ? 0.0f : energy)} << 16;
}

__global__ void __launch_bounds__(kThreads)
    combine(const DevicePiece* pieces, std::uint32_t piece_count, std::uint32_t blocks,
            std::uint32_t ranks, const std::byte* by_rank, std::size_t size, std::byte* combined) {
  const std::uint32_t block = blockIdx.x * blockDim.x + threadIdx.x;
  if (block >= blocks) return;
  const DevicePiece piece = pieces[device::piece_of(pieces, piece_count, block)];
  const std::size_t start = std::size_t{block - piece.first_block} * kSuperGroup;
  float mean = 0;
  float energy = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t own = reinterpret_cast<const std::uint32_t*>(by_rank + rank * size)[block];
    mean += __uint_as_float(own << 16);
    energy += __uint_as_float(own & 0xffff0000u);
  }
  const auto rank_count = static_cast<float>(ranks);
  mean = __fdiv_rn(mean, rank_count);
  const auto values = static_cast<float>(min(kSuperGroup, piece.count - start));
  const float summed = mean * rank_count;
  const bool worth_removing = values * summed * summed * 32.0f >= energy;
  std::uint32_t bits = float_to_bfloat16(mean);
  if (magnitude_bits(mean) >= kInfinityBits || !worth_removing || (bits & 0x7fff) == 0) bits = 0;
  reinterpret_cast<std::uint32_t*>(combined)[block] =
      bits | std::uint32_t{float_to_bfloat16(energy)} << 16;
}

template <typename Byte>
device::SuperGroupMessage<Byte> message_of(const DeviceMessageOf<Byte>& message) {
  return {message.bytes, message.origin.encoder, static_cast<float>(message.origin.contributions)};
}

// Super-groups per warp: at most 32, and an even number, since with an odd one the last round takes
// the slow path for partial super-groups. Small enough to fill the device kRounds times, if there
// are that many super-groups; among the numbers down to half of that, the one that fills the last
// wave of thread blocks best.
std::uint32_t super_groups_per_warp(std::uint32_t blocks, unsigned resident) {
  constexpr std::uint32_t kRounds = 4;
  constexpr std::uint32_t kWarps = device::kSuperGroupThreads / device::kWarp;
  const std::uint32_t wave = multiprocessors() * resident;
  const std::uint32_t max =
      std::clamp(blocks / (wave * kWarps * kRounds) / 2 * 2, 2u, device::kWarp);
  std::uint32_t best = max;
  std::uint64_t min_time = ~std::uint64_t{0};  // in super-groups processed one after the other
  for (std::uint32_t each = max; each >= 2 && 2 * each >= max; each -= 2) {
    const std::uint64_t time = std::uint64_t{each} * grid_of(grid_of(blocks, each * kWarps), wave);
    if (time >= min_time) continue;
    min_time = time;
    best = each;
  }
  return best;
}

// Writes a message without super-groups.
Status clear(const DeviceMessage& message, cudaStream_t stream) {
  return to_status(cudaMemsetAsync(message.bytes, 0, message.size, stream), "cudaMemsetAsync");
}

}  // namespace

Status SuperGroupDevice::statistics(const Batch& batch, std::byte* out, std::byte* /*scratch*/,
                                    cudaStream_t stream) const {
  return with_type(batch.type, [&](auto type) {
    return launch("super-group statistics", compute_statistics<type()>,
                  grid_of(batch.blocks, kThreads / kTeam), kThreads, stream, batch.pieces,
                  batch.piece_count, batch.blocks, out);
  });
}

Status SuperGroupDevice::combine_statistics(const Batch& batch, std::uint32_t ranks,
                                            const std::byte* by_rank, std::size_t size,
                                            std::byte* combined, cudaStream_t stream) const {
  return launch("super-group combine_statistics", combine, grid_of(batch.blocks, kThreads),
                kThreads, stream, batch.pieces, batch.piece_count, batch.blocks, ranks, by_rank,
                size, combined);
}

SuperGroupLaunch SuperGroupDevice::start(const Batch& batch, const device::SuperGroupLayout& layout,
                                         cudaStream_t stream, unsigned resident) const {
  const std::uint32_t per_warp = super_groups_per_warp(batch.blocks, resident);
  SuperGroupLaunch launch{.type = batch.type,
                          .ranks = batch.ranks,
                          .job = {.pieces = batch.pieces,
                                  .piece_count = batch.piece_count,
                                  .blocks = batch.blocks,
                                  .per_warp = per_warp,
                                  .bounds = batch.bounds,
                                  .step_key = device::step_key(batch.seed, batch.step)},
                          .stream = stream,
                          .in_layout = layout,
                          .layout = layout};
  launch.grid =
      grid_of(batch.blocks, std::size_t{per_warp} * (device::kSuperGroupThreads / device::kWarp));
  return launch;
}

SuperGroupLaunch SuperGroupDevice::start(const Batch& batch, const DeviceMessage& out,
                                         cudaStream_t stream) const {
  SuperGroupLaunch launch = start(batch, layout(out), stream);
  launch.out = message_of(out);
  launch.out_size = out.size;
  return launch;
}

Status SuperGroupDevice::encode(const Batch& batch, const DeviceMessage& out,
                                cudaStream_t stream) const {
  if (batch.blocks == 0) return clear(out, stream);
  return run(device::SuperGroupOp::kEncode, start(batch, out, stream), {});
}

Status SuperGroupDevice::decode(const Batch& batch, const ConstDeviceMessage& in,
                                cudaStream_t stream) const {
  return run(device::SuperGroupOp::kDecode, start(batch, layout(in), stream, decoding_blocks()),
             message_of(in));
}

Status SuperGroupDevice::decode_add(const Batch& batch, const ConstDeviceMessage& in,
                                    cudaStream_t stream) const {
  return run(device::SuperGroupOp::kDecodeAdd, start(batch, layout(in), stream), message_of(in));
}

Status SuperGroupDevice::decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                                           const DeviceMessage& out, cudaStream_t stream) const {
  if (batch.blocks == 0) return clear(out, stream);
  return run(device::SuperGroupOp::kDecodeAddEncode, start(batch, out, stream), message_of(in));
}

Status SuperGroupDevice::fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                                     const DeviceMessage& out, cudaStream_t stream) const {
  if (batch.blocks == 0) return clear(out, stream);
  return fold_all(start(batch, out, stream), in, true);
}

Status SuperGroupDevice::fold_add(const Batch& batch, std::span<const ConstDeviceMessage> in,
                                  cudaStream_t stream) const {
  if (batch.blocks == 0 || in.empty()) return {};
  if (in.size() == 1) return decode_add(batch, in.front(), stream);
  return fold_all(start(batch, layout(in.front()), stream), in, false);
}

Status SuperGroupDevice::fold_all(SuperGroupLaunch launch, std::span<const ConstDeviceMessage> in,
                                  bool encodes) const {
  if (in.size() > kMaxFolded) {
    return {ErrorCode::kInvalidArgument,
            encodes ? "fold_encode: too many messages" : "fold_add: too many messages"};
  }
  device::SuperGroupFolded folded;
  for (const ConstDeviceMessage& message : in) {
    folded.messages[folded.count++] = message_of(message);
    launch.in_layout = layout(message);
  }
  return fold(launch, folded, encodes);
}

}  // namespace nf::cuda
