// The second stage: combines the codec statistics of all ranks. Each rank owns a share of the
// granules of every part of the exchange: it receives the statistics of that share from all ranks,
// combines them in rank order and sends the result to all. So all ranks hold the same bytes, over
// any transport.
#pragma once

#include <span>
#include <vector>

#include "collective/frame.h"
#include "collective/stage.h"
#include "collective/tile_map.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The statistics of one codec.
struct StatisticsPart {
  const Codec* codec = nullptr;
  std::span<const Piece> domain;
  // The rank's own statistics of whole parameters. Within `domain`, they are replaced by the
  // combined ones.
  std::span<const std::span<std::byte>> by_parameter;
};

class StatisticsStage final : public Stage {
 public:
  // The statistics of all parts travel in one message. Borrows all arguments until the stage is
  // done.
  Status start(Transport& transport, std::span<const StatisticsPart> parts, FrameKind kind);

  Expected<bool> advance() override;
  std::string waiting_for() const override;
  // The bytes sent for one part. The header of a message counts for the first part.
  std::uint64_t bytes_sent(std::size_t part) const;

 private:
  struct Message {
    Frame frame;
    Transfer transfer;
  };

  std::size_t share_size(std::size_t part, std::uint32_t owner) const;
  std::size_t message_size(std::uint32_t owner) const;
  // Calls visit(part, piece, at) for each piece of an owner's share; `at` is the offset of its
  // statistics in the message.
  template <typename Visit>
  Status for_each_piece(std::uint32_t owner, Visit visit) const;
  // The statistics of a piece within those of its parameter.
  std::span<std::byte> place(const StatisticsPart& part, const Piece& piece) const;
  Status send(Frame& frame, Transfer& transfer, std::uint32_t peer);
  Status send_own(std::uint32_t peer);
  Status combine();
  Status store(std::uint32_t owner);

  Transport* transport_ = nullptr;
  FrameKind kind_;
  std::span<const StatisticsPart> parts_;
  std::vector<TileMap> shares_;  // by part: one chunk per owner
  // By rank; the entries of this rank are unused.
  std::vector<Message> own_sent_, own_received_, combined_received_;
  Frame combined_;  // this rank's share, sent to all ranks
  std::vector<Transfer> combined_sent_;
  std::vector<bool> is_stored_;
  std::vector<std::span<const std::byte>> by_rank_;
  bool is_combined_ = false;
};

}  // namespace nf
