#include "codec/sparse/sparse_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace nf {
namespace {

constexpr std::uint8_t kSentWidth = 16;
constexpr double kMinBudget = 1;
constexpr double kMaxBudget = 16;
constexpr double kMinBlockSize = 32;
constexpr double kMaxBlockSize = 1024;

constexpr std::size_t bytes_of(std::size_t values) { return values * sizeof(std::uint16_t); }

}  // namespace

// Consecutive blocks of a run with the same state.
struct SparseCodec::Stretch {
  BlockState state = BlockState::kLeftOut;
  std::size_t first = 0;   // index of the first value in the run
  std::size_t values = 0;  // without the padding of a last block
};

SparseCodec::SparseCodec(const CodecSpec& spec, SparseFormat format, Isa isa)
    : BlockCodec(spec, format.block, isa), format_(format) {}

std::size_t SparseCodec::statistics_size(std::size_t count) const {
  return blocks_of(count) * format_.key_bytes;
}

std::size_t SparseCodec::width_count(std::size_t count) const { return blocks_of(count); }

std::uint8_t SparseCodec::max_width() const { return kSentWidth; }

std::size_t SparseCodec::granule_size(std::uint8_t width) const {
  return width == kSentWidth ? bytes_of(block()) : 0;
}

std::size_t SparseCodec::payload_capacity(std::span<const std::size_t> counts) const {
  std::size_t values = 0;
  std::size_t statistics = 0;
  std::size_t largest = 0;
  for (const std::size_t count : counts) {
    values += count;
    statistics += statistics_size(count);
    largest = std::max(largest, std::min(count, block()));
  }
  const auto budget = static_cast<std::size_t>(format_.budget * static_cast<double>(values) / 8);
  // One block can always be sent, however small the budget.
  return std::max(budget - std::min(budget, statistics), bytes_of(largest));
}

std::size_t SparseCodec::encoded_size(const Slice& slice, std::uint32_t /*contributions*/) const {
  const std::size_t blocks = blocks_of(slice.count);
  if (blocks == 0) return 0;
  const auto widths = slice.widths.subspan(static_cast<std::size_t>(slice.first) / block(), blocks);
  const auto sent = static_cast<std::size_t>(std::ranges::count(widths, kSentWidth));
  const std::size_t padding = widths.back() == kSentWidth ? blocks * block() - slice.count : 0;
  return bytes_of(sent * block() - padding);
}

float SparseCodec::sum_of_squares(const float* values, std::size_t count) {
  float sums[16] = {};
  for (std::size_t i = 0; i < count; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) sums[k] += values[i + k] * values[i + k];
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  return sums[0];
}

Status SparseCodec::do_choose_widths(std::span<const WidthRequest> parameters, SumOrder /*order*/,
                                     std::size_t capacity) const {
  // Calls work(key, bytes in a message, width) for every block.
  const auto for_each_block = [&](auto work) {
    for (const WidthRequest& parameter : parameters) {
      for (std::size_t b = 0; b < parameter.widths.size(); ++b) {
        const std::size_t held = std::min(block(), parameter.count - b * block());
        work(key_of(parameter.statistics, b), bytes_of(held), parameter.widths[b]);
      }
    }
  };
  std::vector<std::size_t> bytes_at(format_.poison);
  for_each_block([&](std::uint32_t key, std::size_t bytes, std::uint8_t&) {
    if (key < format_.poison) bytes_at[key] += bytes;
  });
  // Send all blocks above `level`, the first key whose blocks do not all fit, and of that key the
  // first blocks that fit.
  std::size_t spare = capacity;
  std::uint32_t level = format_.poison - 1;
  for (; level > 0 && bytes_at[level] <= spare; --level) spare -= bytes_at[level];
  for_each_block([&](std::uint32_t key, std::size_t bytes, std::uint8_t& width) {
    const bool fits = key == level && key > 0 && bytes <= spare;
    if (fits) spare -= bytes;
    width = fits || (key > level && key < format_.poison) ? kSentWidth : 0;
  });
  return {};
}

bool SparseCodec::is_width(std::uint8_t width) const { return width == 0 || width == kSentWidth; }

SparseCodec::BlockState SparseCodec::state_of(const Slice& slice, std::size_t block) const {
  if (slice.widths[block] == kSentWidth) return BlockState::kSent;
  return key_of(slice.statistics, block) < format_.poison ? BlockState::kLeftOut
                                                          : BlockState::kPoisoned;
}

// Calls work(stretch) for all stretches of the run, in order.
template <typename Work>
void SparseCodec::for_each_stretch(const Slice& slice, Run run, Work work) const {
  const std::size_t first = static_cast<std::size_t>(slice.first) / block() + run.block;
  for (std::size_t b = 0; b < run.blocks;) {
    const std::size_t start = b;
    const BlockState state = state_of(slice, first + b);
    while (++b < run.blocks && state_of(slice, first + b) == state) {
    }
    const std::size_t end = std::min(b * block(), run.values);
    work(Stretch{.state = state, .first = start * block(), .values = end - start * block()});
  }
}

void SparseCodec::do_encode(const Slice& slice, Origin /*origin*/, ConstValues values,
                            std::byte* wire) const {
  for_each_run(values, [&](Run run, const float* from) {
    for_each_stretch(slice, run, [&](const Stretch& stretch) {
      if (stretch.state != BlockState::kSent) return;
      convert().float_to_bfloat16(from + stretch.first, stretch.values, wire);
      wire += bytes_of(stretch.values);
    });
  });
}

void SparseCodec::do_decode(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                            Values values) const {
  for_each_run(values, false, [&](Run run, float* to) {
    for_each_stretch(slice, run, [&](const Stretch& stretch) {
      float* at = to + stretch.first;
      switch (stretch.state) {
        case BlockState::kSent:
          convert().bfloat16_to_float(wire, stretch.values, at);
          wire += bytes_of(stretch.values);
          break;
        case BlockState::kLeftOut: std::fill_n(at, stretch.values, 0.0f); break;
        case BlockState::kPoisoned:
          std::fill_n(at, stretch.values, std::numeric_limits<float>::quiet_NaN());
          break;
      }
    });
  });
}

void SparseCodec::do_decode_add(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                                Values values) const {
  for_each_run(values, true, [&](Run run, float* to) {
    for_each_stretch(slice, run, [&](const Stretch& stretch) {
      float* at = to + stretch.first;
      switch (stretch.state) {
        case BlockState::kSent:
          convert().add_bfloat16(wire, stretch.values, at);
          wire += bytes_of(stretch.values);
          break;
        case BlockState::kLeftOut:
          // Adding zero changes no value but turns -0 into +0.
          for (std::size_t i = 0; i < stretch.values; ++i) at[i] += 0.0f;
          break;
        case BlockState::kPoisoned:
          std::fill_n(at, stretch.values, std::numeric_limits<float>::quiet_NaN());
          break;
      }
    });
  });
}

void SparseCodec::do_decode_add_encode(const Slice& slice, Origin /*origin*/, const std::byte* wire,
                                       ConstValues values, Origin /*total*/, std::byte* out) const {
  for_each_run(values, [&](Run run, const float* from) {
    for_each_stretch(slice, run, [&](const Stretch& stretch) {
      if (stretch.state != BlockState::kSent) return;
      convert().sum_bfloat16(wire, from + stretch.first, stretch.values, out);
      wire += bytes_of(stretch.values);
      out += bytes_of(stretch.values);
    });
  });
}

Expected<SparseFormat> sparse_format(const CodecSpec& spec, SparseFormat defaults) {
  static constexpr std::array<std::string_view, 1> kOptions = {"block"};
  NF_RETURN_IF_ERROR(spec.allow(true, kOptions));
  const Expected<double> block =
      spec.number("block", static_cast<double>(defaults.block), kMinBlockSize, kMaxBlockSize);
  if (!block) return block.status();
  const auto size = static_cast<std::size_t>(*block);
  if (*block != std::floor(*block) || !std::has_single_bit(size)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': block must be a power of two", spec.name));
  }
  if (!spec.value || !(*spec.value >= kMinBudget && *spec.value <= kMaxBudget)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': give a budget of {} to {} bits per element, statistics "
                              "included, such as {}:8",
                              spec.name, kMinBudget, kMaxBudget, spec.name));
  }
  defaults.block = size;
  defaults.budget = *spec.value;
  return defaults;
}

}  // namespace nf
