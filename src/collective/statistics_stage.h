// The second stage: combines the codec statistics of all ranks. Each rank owns a share of the
// granules of every part of the exchange: it receives the statistics of that share from all ranks,
// combines them in rank order and sends the result to all. So all ranks hold the same bytes, over
// any transport, however the statistics travel (collective/dissemination.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collective/dissemination.h"
#include "collective/frame.h"
#include "collective/stage.h"
#include "collective/tile_map.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The size of statistics, and how those of all ranks are combined.
class StatisticsKind {
 public:
  virtual ~StatisticsKind() = default;

  // Shares begin at multiples of this number of values.
  virtual std::size_t granule() const = 0;
  // The bytes of the statistics of `count` values.
  virtual std::size_t size(std::size_t count) const = 0;
  virtual Status combine(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                         std::span<std::byte> combined) const = 0;
};

class CodecStatistics final : public StatisticsKind {
 public:
  explicit CodecStatistics(const Codec& codec) : codec_(codec) {}

  std::size_t granule() const override { return codec_.granule(); }
  std::size_t size(std::size_t count) const override { return codec_.statistics_size(count); }
  Status combine(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                 std::span<std::byte> combined) const override {
    return codec_.combine_statistics(count, by_rank, combined);
  }

 private:
  const Codec& codec_;
};

// The statistics of one codec.
struct StatisticsPart {
  const StatisticsKind* kind = nullptr;
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
  using Hop = Dissemination::Hop;

  // The message of one hop in one direction.
  struct Message {
    Frame frame;
    Transfer transfer;
  };

  // The rank that is `distance` after or before this one.
  std::uint32_t after(std::uint32_t distance) const;
  std::uint32_t before(std::uint32_t distance) const;
  // The statistics of a piece within those of its parameter.
  std::span<std::byte> place(const StatisticsPart& part, const Piece& piece) const;
  // Calls visit(part, piece, at) for each piece of an owner's share; `at` is the offset of its
  // statistics in the item of that share.
  template <typename Visit>
  Status for_each_piece(std::uint32_t owner, Visit visit) const;
  // Copies the item of an owner's share to `out`, or from `item`.
  void read_item(std::uint32_t owner, std::span<std::byte> out) const;
  void write_item(std::uint32_t owner, std::span<const std::byte> item) const;

  bool is_gathering() const { return round_ >= pattern_->rounds(); }
  // Calls visit(hop, message index) for each hop of a round. Rounds of the gather follow those of
  // the scatter.
  template <typename Visit>
  Status for_each_hop(std::uint32_t round, Visit visit) const;
  Status start_receives(std::uint32_t round);
  Status start_sends();
  Status send_own(const Hop& hop, std::size_t index);
  Status send_combined(const Hop& hop, std::size_t index);
  bool round_has_arrived() const;
  Status end_round();
  Status open_own(const Hop& hop, std::size_t index);
  Status open_combined(const Hop& hop, std::size_t index);
  Status combine();

  Transport* transport_ = nullptr;
  FrameKind kind_;
  std::span<const StatisticsPart> parts_;
  std::optional<Dissemination> pattern_;
  std::vector<TileMap> shares_;           // by part: one chunk per owner
  std::vector<std::size_t> share_sizes_;  // in bytes, by part and owner
  std::vector<std::size_t> item_sizes_;   // of all parts, by owner

  std::uint32_t round_ = 0;
  std::vector<Message> sent_, received_;  // by hop, those of the scatter first
  // By offset (collective/dissemination.h): the item that is at this rank now, in the message that
  // it arrived with. The items of this rank's own statistics are in their parameters.
  std::vector<std::span<const std::byte>> items_;
  std::vector<std::span<const std::byte>> by_rank_;
  std::vector<std::byte> combined_;  // of one piece
};

}  // namespace nf
