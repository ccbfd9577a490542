#include "collective/statistics_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nf {

using enum FramePlace::Part;

Status StatisticsStage::start(Transport& transport, std::span<const StatisticsPart> parts,
                              FrameKind kind) {
  transport_ = &transport;
  parts_ = parts;
  kind_ = kind;
  round_ = 0;
  const std::uint32_t ranks = transport.ranks();
  if (!pattern_ || pattern_->ranks() != ranks) pattern_.emplace(ranks);
  if (shares_.size() < parts.size()) shares_.resize(parts.size());
  share_sizes_.assign(parts.size() * ranks, 0);
  item_sizes_.assign(ranks, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    shares_[i].cut_evenly(parts[i].kind->granule(), parts[i].domain, ranks);
    for (std::uint32_t owner = 0; owner < ranks; ++owner) {
      std::size_t& size = share_sizes_[i * ranks + owner];
      for (const Piece& piece : shares_[i].pieces(owner, 0)) {
        size += parts[i].kind->size(piece.count);
      }
      item_sizes_[owner] += size;
    }
  }
  sent_.resize(2 * pattern_->hops().size());
  received_.resize(sent_.size());
  items_.assign(ranks, {});
  NF_RETURN_IF_ERROR(start_receives(0));
  return start_sends();
}

std::uint32_t StatisticsStage::after(std::uint32_t distance) const {
  return (transport_->rank() + distance) % transport_->ranks();
}

std::uint32_t StatisticsStage::before(std::uint32_t distance) const {
  return after(transport_->ranks() - distance);
}

std::span<std::byte> StatisticsStage::place(const StatisticsPart& part, const Piece& piece) const {
  return part.by_parameter[piece.parameter].subspan(part.kind->size(piece.first),
                                                    part.kind->size(piece.count));
}

template <typename Visit>
Status StatisticsStage::for_each_piece(std::uint32_t owner, Visit visit) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (const Piece& piece : shares_[i].pieces(owner, 0)) {
      NF_RETURN_IF_ERROR(visit(parts_[i], piece, at));
      at += parts_[i].kind->size(piece.count);
    }
  }
  return {};
}

void StatisticsStage::read_item(std::uint32_t owner, std::span<std::byte> out) const {
  (void)for_each_piece(
      owner, [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        std::ranges::copy(place(part, piece), out.subspan(at).begin());
        return {};
      });
}

void StatisticsStage::write_item(std::uint32_t owner, std::span<const std::byte> item) const {
  (void)for_each_piece(
      owner, [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        const std::span<std::byte> to = place(part, piece);
        std::ranges::copy(item.subspan(at, to.size()), to.begin());
        return {};
      });
}

template <typename Visit>
Status StatisticsStage::for_each_hop(std::uint32_t round, Visit visit) const {
  const std::span<const Hop> hops = pattern_->hops();
  const bool gathers = round >= pattern_->rounds();
  for (std::size_t i = 0; i < hops.size(); ++i) {
    if (hops[i].round != round % pattern_->rounds()) continue;
    NF_RETURN_IF_ERROR(visit(hops[i], (gathers ? hops.size() : 0) + i));
  }
  return {};
}

// The receives of a round start one round earlier, so that no message has to wait for them.
Status StatisticsStage::start_receives(std::uint32_t round) {
  const bool gathers = round >= pattern_->rounds();
  return for_each_hop(round, [&](const Hop& hop, std::size_t index) -> Status {
    const std::uint32_t from = gathers ? after(hop.distance) : before(hop.distance);
    std::size_t size = 0;
    if (gathers) {
      for (std::uint32_t i = 0; i < hop.count; ++i) size += item_sizes_[after(hop.distance + i)];
    } else {
      pattern_->for_each_item(hop, from, [&](std::uint32_t /*offset*/, std::uint32_t receiver) {
        size += item_sizes_[receiver];
      });
    }
    Message& message = received_[index];
    message.frame.resize(size);
    message.transfer = {.peer = from, .bytes = message.frame.whole()};
    return transport_->receive(message.transfer);
  });
}

Status StatisticsStage::start_sends() {
  if (round_ + 1 < 2 * pattern_->rounds()) NF_RETURN_IF_ERROR(start_receives(round_ + 1));
  return for_each_hop(round_, [&](const Hop& hop, std::size_t index) {
    return is_gathering() ? send_combined(hop, index) : send_own(hop, index);
  });
}

Status StatisticsStage::send_own(const Hop& hop, std::size_t index) {
  auto& [frame, transfer] = sent_[index];
  const std::uint32_t self = transport_->rank();
  std::size_t size = 0;
  pattern_->for_each_item(hop, self, [&](std::uint32_t /*offset*/, std::uint32_t receiver) {
    size += item_sizes_[receiver];
  });
  frame.resize(size);
  std::span<std::byte> out = frame.payload();
  pattern_->for_each_item(hop, self, [&](std::uint32_t offset, std::uint32_t receiver) {
    if ((self + offset) % transport_->ranks() == receiver) {
      read_item(receiver, out);
    } else {
      std::ranges::copy(items_[offset], out.begin());
    }
    out = out.subspan(item_sizes_[receiver]);
  });
  const std::uint32_t to = after(hop.distance);
  frame.seal(kind_, {kStatistics, to, round_});
  transfer = {.peer = to, .bytes = frame.whole()};
  return transport_->send(transfer);
}

Status StatisticsStage::send_combined(const Hop& hop, std::size_t index) {
  // All full messages of a round are the same.
  const bool is_first = hop.distance == hop.weight;
  const std::size_t first = index - (hop.distance / hop.weight - 1);
  const bool is_made = !is_first && hop.count == hop.weight;
  Frame& frame = sent_[is_made ? first : index].frame;
  if (!is_made) {
    std::size_t size = 0;
    for (std::uint32_t i = 0; i < hop.count; ++i) size += item_sizes_[after(i)];
    frame.resize(size);
    std::span<std::byte> out = frame.payload();
    for (std::uint32_t i = 0; i < hop.count; ++i) {
      read_item(after(i), out);
      out = out.subspan(item_sizes_[after(i)]);
    }
    frame.seal(kind_, {kCombined, transport_->rank(), round_ % pattern_->rounds()});
  }
  Transfer& transfer = sent_[index].transfer;
  transfer = {.peer = before(hop.distance), .bytes = frame.whole()};
  return transport_->send(transfer);
}

Status StatisticsStage::open_own(const Hop& hop, std::size_t index) {
  const auto& [frame, transfer] = received_[index];
  NF_RETURN_IF_ERROR(frame.open(kind_, {kStatistics, transport_->rank(), round_}, transfer));
  std::span<const std::byte> payload = frame.payload();
  pattern_->for_each_item(hop, transfer.peer, [&](std::uint32_t offset, std::uint32_t receiver) {
    items_[offset] = payload.first(item_sizes_[receiver]);
    payload = payload.subspan(item_sizes_[receiver]);
  });
  return {};
}

Status StatisticsStage::open_combined(const Hop& hop, std::size_t index) {
  const auto& [frame, transfer] = received_[index];
  const std::uint32_t round = round_ % pattern_->rounds();
  NF_RETURN_IF_ERROR(frame.open(kind_, {kCombined, transfer.peer, round}, transfer));
  std::span<const std::byte> payload = frame.payload();
  for (std::uint32_t i = 0; i < hop.count; ++i) {
    const std::uint32_t owner = after(hop.distance + i);
    write_item(owner, payload);
    payload = payload.subspan(item_sizes_[owner]);
  }
  return {};
}

// All items that are left at this rank are statistics of its own share.
Status StatisticsStage::combine() {
  return for_each_piece(
      transport_->rank(),
      [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        const std::span<std::byte> own = place(part, piece);
        by_rank_.assign(transport_->ranks(), own);
        for (std::uint32_t offset = 1; offset < transport_->ranks(); ++offset) {
          by_rank_[before(offset)] = items_[offset].subspan(at, own.size());
        }
        combined_.resize(own.size());
        NF_RETURN_IF_ERROR(part.kind->combine(piece.count, by_rank_, combined_));
        std::ranges::copy(combined_, own.begin());
        return {};
      });
}

bool StatisticsStage::round_has_arrived() const {
  bool has_arrived = true;
  (void)for_each_hop(round_, [&](const Hop& /*hop*/, std::size_t index) -> Status {
    has_arrived &= received_[index].transfer.is_done;
    return {};
  });
  return has_arrived;
}

Status StatisticsStage::end_round() {
  NF_RETURN_IF_ERROR(for_each_hop(round_, [&](const Hop& hop, std::size_t index) {
    return is_gathering() ? open_combined(hop, index) : open_own(hop, index);
  }));
  return ++round_ == pattern_->rounds() ? combine() : Status();
}

Expected<bool> StatisticsStage::advance() {
  const std::uint32_t rounds = 2 * pattern_->rounds();
  while (round_ < rounds) {
    if (!round_has_arrived()) return false;
    NF_RETURN_IF_ERROR(end_round());
    if (round_ < rounds) NF_RETURN_IF_ERROR(start_sends());
  }
  return std::ranges::all_of(sent_,
                             [](const Message& message) { return message.transfer.is_done; });
}

std::uint64_t StatisticsStage::bytes_sent(std::size_t part) const {
  const auto share_size = [this, part](std::uint32_t owner) {
    return share_sizes_[part * transport_->ranks() + owner];
  };
  return pattern_->bytes_sent(transport_->rank(), part == 0 ? kFrameHeaderBytes : 0, share_size);
}

std::string StatisticsStage::waiting_for() const {
  std::string ranks;
  if (round_ < 2 * pattern_->rounds()) {
    (void)for_each_hop(round_, [&](const Hop& /*hop*/, std::size_t index) -> Status {
      const Transfer& transfer = received_[index].transfer;
      if (!transfer.is_done) {
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", transfer.peer);
      }
      return {};
    });
  }
  if (ranks.empty()) return "other ranks to receive this rank's statistics";
  return fmt::format("{}statistics from rank {}", is_gathering() ? "combined " : "", ranks);
}

}  // namespace nf
