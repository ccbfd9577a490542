#include "collective/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collective/dissemination.h"
#include "collective/tile_size.h"
#include "neuron_fabric/reduce_scatter.h"
#include "neuron_fabric/wire_frame.h"

namespace nf {

// The path of one chunk, and buffers for the messages of one piece at a time.
class SimulatedAllReduce::Fold {
 public:
  Fold(const SimulatedAllReduce& sum, std::uint32_t chunk)
      : sum_(sum),
        plan_(sum.plans_.plan(chunk)),
        first_part_(sum.plans_.first_parameter(chunk)),
        ranks_(sum.options_.ranks),
        path_(chunk_path(sum.options_.topology, ranks_, chunk)),
        first_incoming_(ranks_ + 1),
        contributions_(ranks_, 1),
        messages_(ranks_) {
    for (const Edge& edge : path_.reduce) ++first_incoming_[edge.to + 1];
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      first_incoming_[rank + 1] += first_incoming_[rank];
    }
    incoming_.resize(path_.reduce.size());
    std::vector<std::size_t> next(first_incoming_);
    for (const Edge& edge : path_.reduce) {
      incoming_[next[edge.to]++] = {.encoder = edge.from, .contributions = edge.contributions};
      contributions_[edge.to] += edge.contributions;
    }
  }

  Status run(const Piece& piece) {
    piece_ = piece;
    part_ = &sum_.parts_[first_part_ + piece.parameter];
    values_.resize(piece.count);
    decoded_.resize(piece.count);
    exact_.assign(piece.count, 0);
    dropped_.clear();
    if (ranks_ == 1) {
      const std::span<const float> own = read_values(0);
      std::copy(own.begin(), own.end(), decoded_.begin());
      return {};
    }
    lay_out();
    for (const Edge& edge : path_.reduce) NF_RETURN_IF_ERROR(make_message(edge.from));
    if (sum_.scatters() && !merges_messages(plan_.codec(1).kind())) return keep_sum();
    NF_RETURN_IF_ERROR(make_message(path_.owner));
    return decode(total_of(path_.owner), decoded_);
  }

  SummedPiece result() const {
    const Piece place{
        .parameter = part_->parameter, .first = part_->first + piece_.first, .count = piece_.count};
    return {place, decoded_, exact_, dropped_};
  }

  // Bytes of the last piece in all messages, reduce and gather.
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const Edge& edge : path_.reduce) bytes += messages_[edge.from].size;
    return bytes + gathers() * messages_[path_.owner].size;
  }
  // Messages per tile, reduce and gather.
  std::uint64_t messages() const { return path_.reduce.size() + gathers(); }

 private:
  // The position of a rank's message in wire_.
  struct Place {
    std::size_t start = 0;
    std::size_t size = 0;
  };

  const Codec& codec(Origin origin) const { return plan_.codec(origin.contributions); }
  // Messages of the finished sum.
  std::size_t gathers() const { return sum_.scatters() ? 0 : path_.gather.size(); }

  Slice slice(Origin origin) const {
    return {.seed = sum_.options_.seed,
            .step = sum_.options_.step,
            .parameter = part_->key,
            .first = piece_.first,
            .count = piece_.count,
            .ranks = ranks_,
            .statistics = sum_.part_of(std::span(sum_.statistics_), first_part_ + piece_.parameter),
            .widths = plan_.widths(origin.contributions, piece_.parameter)};
  }

  std::size_t size_of_message(Origin origin) const {
    return codec(origin).encoded_size(slice(origin), origin.contributions);
  }

  Origin total_of(std::uint32_t rank) const {
    return {.encoder = rank, .contributions = contributions_[rank]};
  }

  void lay_out() {
    std::size_t end = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      messages_[rank] = {.start = end, .size = size_of_message(total_of(rank))};
      end += messages_[rank].size;
    }
    wire_.resize(end);
  }

  std::span<std::byte> message(Origin origin) {
    const Place place = messages_[origin.encoder];
    return std::span(wire_).subspan(place.start, place.size);
  }

  // Reads a rank's own values and adds them to the exact sum. Called once per rank.
  std::span<const float> read_values(std::uint32_t rank) {
    const auto own =
        sum_.values_->read(rank, part_->parameter, part_->first + piece_.first, values_);
    for (std::size_t i = 0; i < own.size(); ++i) exact_[i] += double{own[i]};
    return own;
  }

  Status decode(Origin origin, std::span<float> values) {
    return codec(origin).decode(slice(origin), origin, message(origin), values);
  }

  std::span<const Origin> incoming_of(std::uint32_t rank) const {
    return std::span(incoming_).subspan(first_incoming_[rank],
                                        first_incoming_[rank + 1] - first_incoming_[rank]);
  }

  // Adds a message to `values`.
  Status add_message(Origin origin, std::span<float> values) {
    return codec(origin).decode_add(slice(origin), origin, message(origin), values);
  }

  // The owner of a shard adds all messages to its values and encodes nothing.
  Status keep_sum() {
    const std::span<const float> own = read_values(path_.owner);
    std::copy(own.begin(), own.end(), decoded_.begin());
    for (const Origin origin : incoming_of(path_.owner)) {
      NF_RETURN_IF_ERROR(add_message(origin, decoded_));
    }
    return {};
  }

  // Precondition: all messages to this rank are encoded.
  Status make_message(std::uint32_t rank) {
    const std::span<const float> own = read_values(rank);
    const auto incoming = incoming_of(rank);
    const Origin total = total_of(rank);
    if (incoming.empty()) return encode(own, total);
    return merges_messages(codec(total).kind()) ? merge(own, incoming, total)
                                                : add(own, incoming, total);
  }

  Status encode(std::span<const float> values, Origin total) {
    NF_RETURN_IF_ERROR(codec(total).encode(slice(total), total, values, message(total)));
    return has_empty_blocks(total) ? note_dropped(values, total) : Status();
  }

  // Adds all messages but the last to the values, and the last one with decode_add_encode().
  Status add(std::span<const float> own, std::span<const Origin> incoming, Origin total) {
    const Origin last = incoming.back();
    const bool in_one_pass =
        plan_.is_one_stage(last.contributions, total.contributions) && !has_empty_blocks(total);
    if (in_one_pass && incoming.size() == 1) {
      return codec(total).decode_add_encode(slice(total), last, message(last), own, total,
                                            message(total));
    }
    partial_.assign(own.begin(), own.end());
    for (const Origin origin : incoming.first(incoming.size() - (in_one_pass ? 1 : 0))) {
      NF_RETURN_IF_ERROR(add_message(origin, partial_));
    }
    if (!in_one_pass) return encode(partial_, total);
    return codec(total).decode_add_encode(slice(total), last, message(last), partial_, total,
                                          message(total));
  }

  Status merge(std::span<const float> own, std::span<const Origin> incoming, Origin total) {
    const Origin first = incoming.front();
    Origin held{.encoder = total.encoder, .contributions = first.contributions + 1};
    merged_.resize(size_of_message(held));
    NF_RETURN_IF_ERROR(
        codec(held).decode_add_encode(slice(held), first, message(first), own, held, merged_));
    for (const Origin origin : incoming.subspan(1)) {
      const Origin both{.encoder = total.encoder,
                        .contributions = held.contributions + origin.contributions};
      next_.resize(size_of_message(both));
      NF_RETURN_IF_ERROR(codec(both).merge(slice(both), held, merged_, origin, message(origin),
                                           total.encoder, next_));
      std::swap(merged_, next_);
      held = both;
    }
    std::copy(merged_.begin(), merged_.end(), message(total).begin());
    return {};
  }

  // The widths of the piece's granules.
  std::span<const std::uint8_t> widths(Origin origin) const {
    const std::span<const std::uint8_t> all = slice(origin).widths;
    if (all.empty()) return all;
    const std::size_t granule = codec(origin).granule();
    return all.subspan(piece_.first / granule, (piece_.count + granule - 1) / granule);
  }

  bool has_empty_blocks(Origin origin) const {
    const auto own = widths(origin);
    return std::find(own.begin(), own.end(), 0) != own.end();
  }

  // Adds the values whose width is 0, and which the message therefore drops, to dropped_.
  Status note_dropped(std::span<const float> values, Origin total) {
    dropped_.resize(piece_.count, 0);
    NF_RETURN_IF_ERROR(decode(total, decoded_));
    const auto own = widths(total);
    const std::size_t granule = codec(total).granule();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (own[i / granule] == 0) dropped_[i] += double{values[i]} - double{decoded_[i]};
    }
    return {};
  }

  const SimulatedAllReduce& sum_;
  const SumPlan& plan_;
  const std::size_t first_part_;  // of the chunk's plan
  const std::uint32_t ranks_;
  const ChunkPath path_;
  std::vector<Origin> incoming_;              // of all ranks, in the order in which they are added
  std::vector<std::size_t> first_incoming_;   // by rank, and one more at the end
  std::vector<std::uint32_t> contributions_;  // by rank, in the message that it sends

  // State of the current piece.
  Piece piece_;
  const Part* part_ = nullptr;
  std::vector<Place> messages_;  // by rank
  std::vector<std::byte> wire_;
  std::vector<std::byte> merged_;
  std::vector<std::byte> next_;
  std::vector<float> values_;
  std::vector<float> partial_;
  std::vector<float> decoded_;
  std::vector<double> exact_;
  std::vector<double> dropped_;
};

SimulatedAllReduce::SimulatedAllReduce(const Codec& codec, const SimulationOptions& options,
                                       std::span<const SimulatedParameter> parameters,
                                       const RankValues& values)
    : codec_(&codec),
      options_(options),
      values_(&values),
      statistics_at_(1, 0),
      by_rank_(options.ranks),
      plans_(
          codec,
          {.ranks = options.ranks, .shape = sum_shape(options.topology), .gathers = !scatters()}) {
  const std::uint32_t shards = scatters() ? options.ranks : 1;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    if (scatters()) borders_.push_back(parts_.size());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto& [key, count] = parameters[p];
      const std::size_t size = (count + shards - 1) / shards;
      const std::size_t first = std::min(shard * size, count);
      parts_.push_back({.parameter = p,
                        .first = first,
                        .count = std::min(size, count - first),
                        .key = scatters() ? shard_key(key, shard) : key});
      statistics_at_.push_back(statistics_at_.back() + codec.statistics_size(parts_.back().count));
    }
  }
  if (scatters()) borders_.push_back(parts_.size());
}

Expected<SimulatedAllReduce> SimulatedAllReduce::create(
    const Codec& codec, const SimulationOptions& options,
    std::span<const SimulatedParameter> parameters, const RankValues& values) {
  if (options.topology == Topology::kHierarchical) {
    return Status(ErrorCode::kUnsupported,
                  "hierarchical combines two topologies: simulate one of those");
  }
  NF_RETURN_IF_ERROR(check_topology(options.collective, options.topology));
  if (options.ranks == 0 || options.ranks > codec.max_ranks()) {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{} sums 1 to {} ranks, not {}", codec.spec().to_string(),
                              codec.max_ranks(), options.ranks));
  }
  return SimulatedAllReduce(codec, options, parameters, values);
}

Status SimulatedAllReduce::compute_statistics(std::uint32_t rank) {
  std::vector<std::byte>& own = by_rank_[rank];
  own.resize(statistics_at_.back());
  if (own.empty()) return {};
  std::vector<float> scratch;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    scratch.resize(part.count);
    NF_RETURN_IF_ERROR(codec_->statistics(values_->read(rank, part.parameter, part.first, scratch),
                                          part_of(std::span(own), p)));
  }
  return {};
}

Status SimulatedAllReduce::make_plan() {
  statistics_.resize(statistics_at_.back());
  std::vector<Piece> domain;
  std::vector<std::size_t> counts;
  std::vector<std::span<const std::byte>> combined;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::span<std::byte> statistics = part_of(std::span(statistics_), p);
    std::vector<std::span<const std::byte>> by_rank;
    for (const auto& own : by_rank_) by_rank.push_back(part_of(std::span(own), p));
    counts.push_back(parts_[p].count);
    domain.push_back({.parameter = p, .first = 0, .count = counts.back()});
    NF_RETURN_IF_ERROR(codec_->combine_statistics(counts.back(), by_rank, statistics));
    combined.push_back(statistics);
  }
  for (auto& own : by_rank_) own = {};
  return plans_.make({.pieces = domain, .counts = counts, .borders = borders_}, combined, chunks(),
                     tile_size(*codec_, domain, chunks(), options_.tile_bytes));
}

Expected<std::uint64_t> SimulatedAllReduce::sum_chunk(
    std::uint32_t chunk, const std::function<void(const SummedPiece&)>& visit) const {
  Fold fold(*this, chunk);
  std::uint64_t bytes = 0;
  for (std::uint32_t tile = 0; tile < plans_.tiles(chunk); ++tile) {
    const std::span<const Piece> pieces = plans_.pieces(chunk, tile);
    for (const Piece& piece : pieces) {
      NF_RETURN_IF_ERROR(fold.run(piece));
      visit(fold.result());
      bytes += fold.bytes();
    }
    if (!pieces.empty()) bytes += fold.messages() * kFrameHeaderBytes;
  }
  return bytes;
}

std::uint64_t SimulatedAllReduce::statistics_bytes() const {
  const std::uint64_t gather_hops = options_.ranks - 1;
  return (Dissemination(options_.ranks).scatter_hops() + gather_hops) * statistics_at_.back();
}

Status simulate_all_reduce(const Codec& codec, const SimulationOptions& options,
                           std::span<const SimulatedParameter> parameters, const RankValues& values,
                           std::span<const std::span<float>> sums) {
  Expected<SimulatedAllReduce> sum = SimulatedAllReduce::create(codec, options, parameters, values);
  if (!sum) return sum.status();
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    NF_RETURN_IF_ERROR(sum->compute_statistics(rank));
  }
  NF_RETURN_IF_ERROR(sum->make_plan());
  for (std::uint32_t chunk = 0; chunk < sum->chunks(); ++chunk) {
    const auto bytes = sum->sum_chunk(chunk, [&](const SummedPiece& summed) {
      std::copy(summed.sum.begin(), summed.sum.end(),
                sums[summed.piece.parameter].subspan(summed.piece.first).begin());
    });
    if (!bytes) return bytes.status();
  }
  return {};
}

}  // namespace nf
