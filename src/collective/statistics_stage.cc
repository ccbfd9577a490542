#include "collective/statistics_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace nf {

using enum FramePlace::Part;

Status StatisticsStage::start(Transport& transport, const Codec& codec, FrameKind kind,
                              std::span<const Piece> domain,
                              std::span<const std::span<std::byte>> by_parameter) {
  transport_ = &transport;
  codec_ = &codec;
  kind_ = kind;
  by_parameter_ = by_parameter;
  bytes_sent_ = 0;
  is_combined_ = false;
  const std::uint32_t ranks = transport.ranks();
  parts_.cut_evenly(codec.granule(), domain, ranks);
  for (auto* list : {&own_sent_, &own_received_, &combined_received_}) list->resize(ranks);
  combined_sent_.resize(ranks);
  is_stored_.assign(ranks, false);
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    const std::uint32_t from = (transport.rank() + ranks - distance) % ranks;
    for (const auto& [list, size] : {std::pair(&own_received_, part_size(transport.rank())),
                                     std::pair(&combined_received_, part_size(from))}) {
      Message& message = (*list)[from];
      message.frame.resize(size);
      message.transfer = {.peer = from, .bytes = message.frame.whole()};
      NF_RETURN_IF_ERROR(transport.receive(message.transfer));
    }
    const std::uint32_t to = (transport.rank() + distance) % ranks;
    own_sent_[to].frame.resize(part_size(to));
    gather_part(to, own_sent_[to].frame.payload());
    own_sent_[to].frame.seal(kind_, {kStatistics, to});
    NF_RETURN_IF_ERROR(send(own_sent_[to].frame, own_sent_[to].transfer, to));
  }
  return {};
}

std::size_t StatisticsStage::part_size(std::uint32_t part) const {
  std::size_t sum = 0;
  for (const Piece& piece : parts_.pieces(part, 0)) sum += codec_->statistics_size(piece.count);
  return sum;
}

// The statistics of a piece within those of its parameter.
std::span<std::byte> StatisticsStage::place(const Piece& piece) const {
  return by_parameter_[piece.parameter].subspan(codec_->statistics_size(piece.first),
                                                codec_->statistics_size(piece.count));
}

void StatisticsStage::gather_part(std::uint32_t part, std::span<std::byte> out) const {
  std::size_t at = 0;
  for (const Piece& piece : parts_.pieces(part, 0)) {
    const std::span<std::byte> from = place(piece);
    if (!from.empty()) std::memcpy(out.data() + at, from.data(), from.size());
    at += from.size();
  }
}

Status StatisticsStage::send(Frame& frame, Transfer& transfer, std::uint32_t peer) {
  transfer = {.peer = peer, .bytes = frame.whole()};
  bytes_sent_ += frame.whole().size();
  return transport_->send(transfer);
}

Status StatisticsStage::combine() {
  const std::uint32_t self = transport_->rank();
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank == self) continue;
    const Message& message = own_received_[rank];
    NF_RETURN_IF_ERROR(message.frame.open(kind_, {kStatistics, self}, message.transfer));
  }
  combined_.resize(part_size(self));
  std::size_t at = 0;
  for (const Piece& piece : parts_.pieces(self, 0)) {
    const std::size_t size = codec_->statistics_size(piece.count);
    by_rank_.clear();
    for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
      const Frame& frame = own_received_[rank].frame;
      by_rank_.push_back(rank == self ? place(piece) : frame.payload().subspan(at, size));
    }
    const std::span<std::byte> out = combined_.payload().subspan(at, size);
    NF_RETURN_IF_ERROR(codec_->combine_statistics(piece.count, by_rank_, out));
    std::copy(out.begin(), out.end(), place(piece).begin());
    at += size;
  }
  combined_.seal(kind_, {kCombined, self});
  for (std::uint32_t rank = 0; rank < transport_->ranks(); ++rank) {
    if (rank != self) NF_RETURN_IF_ERROR(send(combined_, combined_sent_[rank], rank));
  }
  is_combined_ = true;
  return {};
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
    Message& message = combined_received_[rank];
    if (rank == self || is_stored_[rank] || !message.transfer.is_done) continue;
    NF_RETURN_IF_ERROR(message.frame.open(kind_, {kCombined, rank}, message.transfer));
    std::size_t at = 0;
    for (const Piece& piece : parts_.pieces(rank, 0)) {
      const std::span<std::byte> to = place(piece);
      const auto from = message.frame.payload().subspan(at, to.size());
      std::copy(from.begin(), from.end(), to.begin());
      at += to.size();
    }
    is_stored_[rank] = true;
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
