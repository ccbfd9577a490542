#include "cuda/device_case_batches.h"

#include <algorithm>

#include "cuda/codec/sparse_plan.h"

namespace nf::test {
namespace {

// Blocks of another batch, before this one in its table.
constexpr std::uint32_t kForeignBlocks = 3;
constexpr std::uint64_t kSeed = 0x5eed;
constexpr std::uint64_t kStep = 17;

}  // namespace

void CaseBatches::make_parameters() {
  std::size_t at = kFence;
  for (const TestPiece& piece : test_.pieces) {
    Parameter parameter;
    parameter.key = random_.bits();
    parameter.first = piece.granules_before * codec_->granule();
    parameter.held = piece.count;
    parameter.count = parameter.first + piece.count + piece.after;
    parameter.at = at;
    for (std::uint32_t rank = 0; rank < test_.ranks; ++rank) {
      parameter.by_rank.push_back(make_values(random_, test_.type, test_.input, parameter.count));
    }
    at += (parameter.count * size_of(test_.type) + 2 * kFence) / kFence * kFence;
    parameters_.push_back(std::move(parameter));
  }
  arena_size_ = at + kFence;
}

Bytes CaseBatches::arena(std::uint32_t rank) const {
  Bytes bytes(arena_size_, kPoison);
  for (const Parameter& parameter : parameters_) {
    std::copy(parameter.by_rank[rank].begin(), parameter.by_rank[rank].end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(parameter.at));
  }
  return bytes;
}

std::uint32_t CaseBatches::blocks_of(std::size_t count) const {
  return static_cast<std::uint32_t>((count + codec_->granule() - 1) / codec_->granule());
}

CaseBatches::DeviceBatch CaseBatches::batch_of(const DeviceCopy& arena, bool whole) const {
  std::vector<cuda::DevicePiece> pieces;
  const bool is_part = !whole && has_bounds();
  const cuda::DevicePiece foreign{
      .count = static_cast<std::uint32_t>(kForeignBlocks * codec_->granule())};
  if (is_part) pieces.push_back(foreign);
  std::uint32_t blocks = is_part ? kForeignBlocks : 0;
  std::size_t statistics_at = 0;
  for (const Parameter& parameter : parameters_) {
    const std::size_t first = whole ? 0 : parameter.first;
    const std::size_t count = whole ? parameter.count : parameter.held;
    pieces.push_back({.values = arena.as<std::byte>() + parameter.at + first * value_size(),
                      .statistics = statistics_ == nullptr
                                        ? nullptr
                                        : statistics_->as<std::byte>() + statistics_at +
                                              codec_->statistics_size(first),
                      .parameter = parameter.key,
                      .first = first,
                      .count = static_cast<std::uint32_t>(count),
                      .first_block = blocks});
    blocks += blocks_of(count);
    statistics_at += codec_->statistics_size(parameter.count);
  }
  cuda::BatchBounds bounds{.piece_count = static_cast<std::uint32_t>(parameters_.size())};
  if (is_part) {
    bounds.first_piece = 1;
    bounds.first_block = kForeignBlocks;
    bounds.blocks = blocks - kForeignBlocks;
    pieces.push_back(foreign);
    pieces.back().first_block = blocks;
  }
  DeviceBatch result{
      std::make_unique<DeviceCopy>(pieces), std::make_unique<DeviceCopy>(std::vector{bounds}), {}};
  result.batch = {.pieces = result.pieces->as<cuda::DevicePiece>(),
                  .piece_count = static_cast<std::uint32_t>(pieces.size()),
                  .blocks = blocks,
                  .type = test_.type,
                  .seed = kSeed,
                  .step = kStep,
                  .ranks = test_.ranks,
                  .bounds = is_part ? result.bounds->as<cuda::BatchBounds>() : nullptr};
  return result;
}

Slice CaseBatches::slice(const Parameter& parameter, bool last) const {
  return {.seed = kSeed,
          .step = kStep,
          .parameter = parameter.key,
          .first = parameter.first,
          .count = parameter.held,
          .ranks = test_.ranks,
          .statistics = parameter.statistics,
          .widths = last ? parameter.last_widths : parameter.widths};
}

Layout CaseBatches::layout(std::uint32_t contributions, bool last) const {
  Layout layout;
  if (has_bounds()) layout.offsets.resize(kForeignBlocks);
  for (const Parameter& parameter : parameters_) {
    const Slice own = slice(parameter, last);
    layout.piece_at.push_back(layout.size);
    layout.sizes.push_back(codec_->encoded_size(own, contributions));
    if (codec_->kind() == CodecKind::kSparse) {
      const auto offsets = cuda::block_offsets(*codec_, own, layout.size);
      layout.offsets.insert(layout.offsets.end(), offsets.begin(), offsets.end());
    } else if (codec_->width_count(1) > 0) {
      add_offsets(own, layout);
    }
    layout.size += layout.sizes.back();
  }
  return layout;
}

// Appends the offsets of the super-groups of a slice whose message starts at layout.size.
void CaseBatches::add_offsets(const Slice& slice, Layout& layout) const {
  const std::size_t blocks = blocks_of(slice.count);
  const auto widths = slice.widths.subspan(slice.first / 256, blocks);
  const std::size_t scales = codec_->granule_size(1) - 2 - 32;
  std::size_t sent = 0;
  std::size_t scale_bytes = 0;
  const auto held = [&](std::size_t j) {
    return std::min<std::size_t>(256, slice.count - 256 * j);
  };
  for (std::size_t j = 0; j < blocks; ++j) {
    if (widths[j] == 0) continue;
    ++sent;
    scale_bytes += (held(j) * scales + 255) / 256;
  }
  std::size_t codes = layout.size + (2 * sent + scale_bytes + 15) / 16 * 16;
  std::size_t index = 0;
  for (std::size_t j = 0; j < blocks; ++j) {
    layout.offsets.push_back(
        {.units = static_cast<std::uint32_t>(layout.size + 2 * index),
         .scales = static_cast<std::uint32_t>(layout.size + 2 * sent + scales * index),
         .codes = static_cast<std::uint32_t>(codes),
         .width = widths[j]});
    if (widths[j] == 0) continue;
    ++index;
    codes += (held(j) + 31) / 32 * 4 * widths[j];
  }
}

}  // namespace nf::test
