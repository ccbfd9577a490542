// omnireduce: the blocks that some rank has among its own loudest travel
// (docs/codecs/omnireduce.md). How many each rank may name follows from the budget, once all have
// said how loud their blocks are. The key of a block is a rung of a ladder of ever shorter lists:
// the highest on which the block still is. Rung 1 lists all blocks of a parameter, and eight rungs
// up half as many.
#include <algorithm>
#include <vector>

#include "codec/make_codecs.h"
#include "codec/sparse/ladder.h"
#include "codec/sparse/sparse_codec.h"

namespace nf {
namespace {

constexpr std::size_t kDefaultBlock = 256;
constexpr std::uint16_t kNotFinite = 0x7f80;  // norms from here on
constexpr std::uint8_t kPoisonKey = 255;
static_assert(kMostRung < kPoisonKey);

// The blocks from the loudest to the quietest, equals in their order.
std::vector<std::size_t> by_loudness(std::span<const std::uint16_t> norms) {
  if (norms.empty()) return {};
  const std::uint16_t most = *std::ranges::max_element(norms);
  const std::uint16_t least = *std::ranges::min_element(norms);
  // next[d] = where the next block goes that lies d below the loudest.
  std::vector<std::size_t> next(std::size_t{most} - least + 2);
  for (const std::uint16_t norm : norms) ++next[most - norm + 1u];
  for (std::size_t d = 1; d < next.size(); ++d) next[d] += next[d - 1];
  std::vector<std::size_t> order(norms.size());
  for (std::size_t b = 0; b < norms.size(); ++b) order[next[most - norms[b]]++] = b;
  return order;
}

class Omnireduce final : public SparseCodec {
 public:
  Omnireduce(const CodecSpec& spec, SparseFormat format, Isa isa)
      : SparseCodec(spec, format, isa) {}

 protected:
  void do_statistics(ConstValues values, std::span<std::byte> out) const override {
    std::vector<std::uint16_t> norms(blocks_of(values.count));
    for_each_norm(values, [&](std::size_t b, std::uint16_t norm) { norms[b] = norm; });
    const std::vector<std::size_t> order = by_loudness(norms);
    std::uint32_t rung = kMostRung;
    for (std::size_t place = 0; place < order.size(); ++place) {
      while (place >= blocks_on(rung, order.size())) --rung;
      const std::uint16_t norm = norms[order[place]];
      out[order[place]] = static_cast<std::byte>(norm == 0            ? 0
                                                 : norm >= kNotFinite ? kPoisonKey
                                                                      : rung);
    }
  }

  // The highest rung on which any rank lists the block; poison is above all.
  Status do_combine_statistics(std::size_t /*count*/,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override {
    std::ranges::fill(combined, std::byte{0});
    for (const auto& rank : by_rank) {
      for (std::size_t b = 0; b < combined.size(); ++b)
        combined[b] = std::max(combined[b], rank[b]);
    }
    return {};
  }
};

}  // namespace

CodecResult make_omnireduce(const CodecSpec& spec) {
  const Expected<SparseFormat> format =
      sparse_format(spec, {.block = kDefaultBlock, .key_bytes = 1, .poison = kPoisonKey});
  if (!format) return format.status();
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  return std::unique_ptr<Codec>(std::make_unique<Omnireduce>(spec, *format, *isa));
}

}  // namespace nf
