#include "collective/sum_plan.h"

#include <algorithm>

namespace nf {

SumPlan::SumPlan(const Codec& codec, SumOrder order) : order_(order), hops_(codec.hops(order)) {
  for (const Hop& hop : hops_) {
    stages_.push_back({.max_contributions = hop.max_contributions, .codec = hop.codec.get()});
  }
  if (stages_.empty()) stages_.push_back({.max_contributions = order.ranks, .codec = &codec});
}

const SumPlan::Stage& SumPlan::stage_of(std::uint32_t contributions) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(), [&](const Stage& stage) {
    return contributions <= stage.max_contributions;
  });
  return found == stages_.end() ? stages_.back() : *found;
}

std::span<const std::uint8_t> SumPlan::widths(std::uint32_t contributions,
                                              std::size_t parameter) const {
  return std::span(stage_of(contributions).widths)
      .subspan(first_width_[parameter], first_width_[parameter + 1] - first_width_[parameter]);
}

void SumPlan::make_even(std::size_t granule, std::span<const Piece> domain, std::uint32_t chunks,
                        std::size_t tile_bytes) {
  std::size_t parameters = 0;
  std::size_t bytes = 0;
  for (const Piece& piece : domain) {
    parameters = std::max(parameters, piece.parameter + 1);
    bytes += piece.count * sizeof(float);
  }
  first_width_.assign(parameters + 1, 0);
  const std::size_t tile = std::max<std::size_t>(tile_bytes, 1) * chunks;
  tiles_.cut_evenly(granule, domain, chunks,
                    static_cast<std::uint32_t>(std::max<std::size_t>(bytes / tile, 1)));
}

void SumPlan::cut(std::span<const Piece> domain, std::span<const std::size_t> counts,
                  std::uint32_t chunks, std::size_t tile_bytes) {
  const Codec& any = *stages_.front().codec;
  first_width_.assign(1, 0);
  for (const std::size_t count : counts) {
    first_width_.push_back(first_width_.back() + any.width_count(count));
  }
  if (any.max_width() == 0) {
    tiles_.cut(any, domain, chunks, tile_bytes);
    return;
  }
  counts_.clear();
  for (const Piece& piece : domain) counts_.push_back(piece.count);

  // The stage with the smallest budget determines the tiles: there even minimal widths may fill a
  // tile, and every other stage has a larger budget.
  const auto placing =
      std::min_element(stages_.begin(), stages_.end(),
                       [&](const Stage& a, const Stage& b) { return capacity(a) < capacity(b); });
  placing_ = static_cast<std::size_t>(placing - stages_.begin());
  tiles_.cut(*placing->codec, domain, chunks, tile_bytes);
  const std::size_t tiles = std::size_t{chunks} * tiles_.tiles_per_chunk();
  for (Stage& stage : stages_) {
    stage.padded_size = tiles_.padded_size() + (capacity(stage) - capacity(*placing)) / tiles;
  }
}

Status SumPlan::make(std::span<const Piece> domain, std::span<const std::size_t> counts,
                     std::span<const std::span<const std::byte>> statistics, std::uint32_t chunks,
                     std::size_t tile_bytes) {
  cut(domain, counts, chunks, tile_bytes);
  Stage& placing = stages_[placing_];
  if (placing.codec->max_width() == 0) return {};
  for (Stage& stage : stages_) stage.widths.resize(first_width_.back());
  NF_RETURN_IF_ERROR(choose(placing, domain, statistics, capacity(placing)));
  placing_widths_.clear();
  for (std::size_t p = 0; p < counts.size(); ++p) {
    placing_widths_.push_back(std::span<const std::uint8_t>(placing.widths)
                                  .subspan(first_width_[p], first_width_[p + 1] - first_width_[p]));
  }
  tiles_.place(*placing.codec, domain, placing_widths_);

  // In the other stages, widths are chosen per tile, from its share of the larger budget.
  for (Stage& stage : stages_) {
    if (&stage == &placing) continue;
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::uint32_t index = 0; index < tiles_.tiles_per_chunk(); ++index) {
        NF_RETURN_IF_ERROR(
            choose(stage, tiles_.pieces(chunk, index), statistics, stage.padded_size));
      }
    }
  }
  return {};
}

Status SumPlan::choose(Stage& stage, std::span<const Piece> pieces,
                       std::span<const std::span<const std::byte>> statistics,
                       std::size_t capacity) {
  const Codec& codec = *stage.codec;
  requests_.clear();
  for (const Piece& piece : pieces) {
    requests_.push_back(
        {.count = piece.count,
         .statistics = statistics[piece.parameter].subspan(codec.statistics_size(piece.first),
                                                           codec.statistics_size(piece.count)),
         .widths = std::span(stage.widths)
                       .subspan(first_width_[piece.parameter] + codec.width_count(piece.first),
                                codec.width_count(piece.count))});
  }
  return codec.choose_widths(requests_, order_, capacity);
}

}  // namespace nf
