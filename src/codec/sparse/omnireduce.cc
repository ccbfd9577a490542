// omnireduce: sends the blocks that are among the largest of any rank (docs/codecs/omnireduce.md).
// The key of a block is the highest rung that lists it on a ladder of ever shorter lists: rung 1
// lists all blocks of a parameter, and eight rungs up the list is half as long. The budget
// determines the rung from which on blocks are sent.
#include <algorithm>
#include <vector>

#include "codec/make_codecs.h"
#include "codec/sparse/ladder.h"
#include "codec/sparse/sparse_codec.h"

namespace nf {
namespace {

constexpr std::size_t kDefaultBlock = 256;
constexpr std::uint16_t kNonFinite = 0x7f80;  // BF16 bits of non-finite norms start here
constexpr std::uint8_t kPoisonKey = 255;
static_assert(kMaxRung < kPoisonKey);

// The blocks by descending norm; equal norms stay in order (a counting sort).
std::vector<std::size_t> by_descending_norm(std::span<const std::uint16_t> norms) {
  if (norms.empty()) return {};
  const std::uint16_t max = *std::ranges::max_element(norms);
  const std::uint16_t min = *std::ranges::min_element(norms);
  // next[d] is the position of the next block whose norm is max - d.
  std::vector<std::size_t> next(std::size_t{max} - min + 2);
  for (const std::uint16_t norm : norms) ++next[max - norm + 1u];
  for (std::size_t d = 1; d < next.size(); ++d) next[d] += next[d - 1];
  std::vector<std::size_t> order(norms.size());
  for (std::size_t b = 0; b < norms.size(); ++b) order[next[max - norms[b]]++] = b;
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
    const std::vector<std::size_t> order = by_descending_norm(norms);
    std::uint32_t rung = kMaxRung;
    for (std::size_t place = 0; place < order.size(); ++place) {
      while (place >= blocks_on(rung, order.size())) --rung;
      const std::uint16_t norm = norms[order[place]];
      out[order[place]] = static_cast<std::byte>(norm == 0            ? 0
                                                 : norm >= kNonFinite ? kPoisonKey
                                                                      : rung);
    }
  }

  // The highest rung of any rank; the poison key is higher than all rungs.
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
