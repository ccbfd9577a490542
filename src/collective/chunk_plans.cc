#include "collective/chunk_plans.h"

#include <numeric>

namespace nf {

ChunkPlans::ChunkPlans(const Codec& codec, SumOrder order) : codec_(codec), order_(order) {
  plans_.emplace_back(codec, order);
}

template <typename Work>
Status ChunkPlans::for_each_plan(const SumDomain& domain, std::uint32_t chunks, Work work) {
  borders_.assign(domain.borders.begin(), domain.borders.end());
  if (!has_borders()) return work(plans_.front(), domain, chunks);
  values_.clear();
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk == plans_.size()) plans_.emplace_back(codec_, order_);
    const auto counts =
        domain.counts.subspan(borders_[chunk], borders_[chunk + 1] - borders_[chunk]);
    values_.push_back(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    whole_.clear();
    for (const std::size_t count : counts) {
      whole_.push_back({.parameter = whole_.size(), .first = 0, .count = count});
    }
    NF_RETURN_IF_ERROR(work(plans_[chunk], SumDomain{.pieces = whole_, .counts = counts}, 1u));
  }
  return {};
}

void ChunkPlans::cut(const SumDomain& domain, std::uint32_t chunks, std::size_t tile_bytes) {
  (void)for_each_plan(domain, chunks,
                      [&](SumPlan& plan, const SumDomain& part, std::uint32_t own) -> Status {
                        plan.cut(part.pieces, part.counts, own, tile_bytes);
                        return {};
                      });
}

Status ChunkPlans::make(const SumDomain& domain,
                        std::span<const std::span<const std::byte>> statistics,
                        std::uint32_t chunks, std::size_t tile_bytes) {
  return for_each_plan(
      domain, chunks, [&](SumPlan& plan, const SumDomain& part, std::uint32_t own) {
        const auto first = static_cast<std::size_t>(part.counts.data() - domain.counts.data());
        return plan.make(part.pieces, part.counts, statistics.subspan(first, part.counts.size()),
                         own, tile_bytes);
      });
}

void ChunkPlans::make_even(std::size_t granule, const SumDomain& domain, std::uint32_t chunks,
                           std::size_t tile_bytes) {
  (void)for_each_plan(domain, chunks,
                      [&](SumPlan& plan, const SumDomain& part, std::uint32_t own) -> Status {
                        plan.make_even(granule, part.pieces, own, tile_bytes);
                        return {};
                      });
}

void ChunkPlans::pieces_of(std::uint32_t chunk, std::vector<Piece>& out) const {
  plan(chunk).tiles().pieces_of(has_borders() ? 0 : chunk, out);
  for (Piece& piece : out) piece.parameter += first_parameter(chunk);
}

// Padded messages are sent even without pieces, because the number of messages must not depend on
// the widths. Only a given chunk without values has none.
bool ChunkPlans::is_empty(std::uint32_t chunk, std::uint32_t tile) const {
  if (has_borders() && values_[chunk] == 0) return true;
  return plan(chunk).padded_size(1) == 0 && pieces(chunk, tile).empty();
}

}  // namespace nf
