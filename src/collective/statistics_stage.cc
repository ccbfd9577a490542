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
  is_combined_ = false;
  const std::uint32_t ranks = transport.ranks();
  if (shares_.size() < parts.size()) shares_.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    shares_[i].cut_evenly(parts[i].codec->granule(), parts[i].domain, ranks);
  }
  for (auto* list : {&own_sent_, &own_received_, &combined_received_}) list->resize(ranks);
  combined_sent_.resize(ranks);
  is_stored_.assign(ranks, false);
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    const std::uint32_t from = (transport.rank() + ranks - distance) % ranks;
    for (const auto& [list, size] : {std::pair(&own_received_, message_size(transport.rank())),
                                     std::pair(&combined_received_, message_size(from))}) {
      Message& message = (*list)[from];
      message.frame.resize(size);
      message.transfer = {.peer = from, .bytes = message.frame.whole()};
      NF_RETURN_IF_ERROR(transport.receive(message.transfer));
    }
    NF_RETURN_IF_ERROR(send_own((transport.rank() + distance) % ranks));
  }
  return {};
}

std::size_t StatisticsStage::share_size(std::size_t part, std::uint32_t owner) const {
  std::size_t sum = 0;
  for (const Piece& piece : shares_[part].pieces(owner, 0)) {
    sum += parts_[part].codec->statistics_size(piece.count);
  }
  return sum;
}

std::size_t StatisticsStage::message_size(std::uint32_t owner) const {
  std::size_t sum = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) sum += share_size(part, owner);
  return sum;
}

std::uint64_t StatisticsStage::bytes_sent(std::size_t part) const {
  const std::uint64_t header = part == 0 ? kFrameHeaderBytes : 0;
  const std::uint64_t combined = header + share_size(part, transport_->rank());
  std::uint64_t bytes = 0;
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank != transport_->rank()) bytes += header + share_size(part, rank) + combined;
  }
  return bytes;
}

std::span<std::byte> StatisticsStage::place(const StatisticsPart& part, const Piece& piece) const {
  return part.by_parameter[piece.parameter].subspan(part.codec->statistics_size(piece.first),
                                                    part.codec->statistics_size(piece.count));
}

template <typename Visit>
Status StatisticsStage::for_each_piece(std::uint32_t owner, Visit visit) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (const Piece& piece : shares_[i].pieces(owner, 0)) {
      NF_RETURN_IF_ERROR(visit(parts_[i], piece, at));
      at += parts_[i].codec->statistics_size(piece.count);
    }
  }
  return {};
}

Status StatisticsStage::send(Frame& frame, Transfer& transfer, std::uint32_t peer) {
  transfer = {.peer = peer, .bytes = frame.whole()};
  return transport_->send(transfer);
}

Status StatisticsStage::send_own(std::uint32_t peer) {
  Message& message = own_sent_[peer];
  message.frame.resize(message_size(peer));
  const std::span<std::byte> out = message.frame.payload();
  NF_RETURN_IF_ERROR(for_each_piece(
      peer, [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        std::ranges::copy(place(part, piece), out.subspan(at).begin());
        return {};
      }));
  message.frame.seal(kind_, {kStatistics, peer});
  return send(message.frame, message.transfer, peer);
}

Status StatisticsStage::combine() {
  const std::uint32_t self = transport_->rank();
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank == self) continue;
    const Message& message = own_received_[rank];
    NF_RETURN_IF_ERROR(message.frame.open(kind_, {kStatistics, self}, message.transfer));
  }
  combined_.resize(message_size(self));
  const Status combined = for_each_piece(
      self, [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        const std::span<std::byte> own = place(part, piece);
        by_rank_.clear();
        for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
          const Frame& frame = own_received_[rank].frame;
          by_rank_.push_back(rank == self ? own : frame.payload().subspan(at, own.size()));
        }
        const std::span<std::byte> out = combined_.payload().subspan(at, own.size());
        NF_RETURN_IF_ERROR(part.codec->combine_statistics(piece.count, by_rank_, out));
        std::ranges::copy(out, own.begin());
        return {};
      });
  NF_RETURN_IF_ERROR(combined);
  combined_.seal(kind_, {kCombined, self});
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank != self) NF_RETURN_IF_ERROR(send(combined_, combined_sent_[rank], rank));
  }
  is_combined_ = true;
  return {};
}

Status StatisticsStage::store(std::uint32_t owner) {
  const Message& message = combined_received_[owner];
  NF_RETURN_IF_ERROR(message.frame.open(kind_, {kCombined, owner}, message.transfer));
  is_stored_[owner] = true;
  return for_each_piece(
      owner, [&](const StatisticsPart& part, const Piece& piece, std::size_t at) -> Status {
        const std::span<std::byte> to = place(part, piece);
        std::ranges::copy(message.frame.payload().subspan(at, to.size()), to.begin());
        return {};
      });
}

Expected<bool> StatisticsStage::advance() {
  const std::uint32_t self = transport_->rank();
  const auto all_done = [&](auto transfer_of) {
    for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
      if (rank != self && !transfer_of(rank).is_done) return false;
    }
    return true;
  };
  const auto in = [](const std::vector<Message>& list) {
    return [&list](std::uint32_t rank) { return list[rank].transfer; };
  };
  if (!is_combined_ && all_done(in(own_received_))) NF_RETURN_IF_ERROR(combine());
  if (!is_combined_ || !all_done(in(own_sent_))) return false;
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank == self || is_stored_[rank] || !combined_received_[rank].transfer.is_done) continue;
    NF_RETURN_IF_ERROR(store(rank));
  }
  return all_done(in(combined_received_)) &&
         all_done([&](std::uint32_t rank) { return combined_sent_[rank]; });
}

std::string StatisticsStage::waiting_for() const {
  std::string ranks;
  const auto& awaited = is_combined_ ? combined_received_ : own_received_;
  for (std::uint32_t rank = 0; rank < awaited.size(); ++rank) {
    if (rank == transport_->rank() || awaited[rank].transfer.is_done) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  if (ranks.empty()) return "other ranks to receive this rank's statistics";
  return fmt::format("{}statistics from rank {}", is_combined_ ? "combined " : "", ranks);
}

}  // namespace nf
