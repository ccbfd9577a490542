// The second stage: combines the codec statistics of all ranks. Each rank owns a part of the
// granules: it receives the statistics of that part from all ranks, combines them in rank order and
// sends the result to all. So all ranks hold the same bytes, over any transport.
#pragma once

#include <span>
#include <vector>

#include "collective/frame.h"
#include "collective/stage.h"
#include "collective/tile_map.h"
#include "neuron_fabric/codec.h"

namespace nf {

class StatisticsStage final : public Stage {
 public:
  // `by_parameter` holds the rank's own statistics of whole parameters; within `domain` they are
  // replaced by the combined ones. Borrows all arguments until the stage is done.
  Status start(Transport& transport, const Codec& codec, FrameKind kind,
               std::span<const Piece> domain, std::span<const std::span<std::byte>> by_parameter);

  Expected<bool> advance() override;
  std::string waiting_for() const override;
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Message {
    Frame frame;
    Transfer transfer;
  };

  std::size_t part_size(std::uint32_t part) const;
  std::span<std::byte> place(const Piece& piece) const;
  void gather_part(std::uint32_t part, std::span<std::byte> out) const;
  Status send(Frame& frame, Transfer& transfer, std::uint32_t peer);
  Status combine();

  Transport* transport_ = nullptr;
  const Codec* codec_ = nullptr;
  FrameKind kind_;
  std::span<const std::span<std::byte>> by_parameter_;
  TileMap parts_;
  // By rank; the entries of this rank are unused.
  std::vector<Message> own_sent_, own_received_, combined_received_;
  Frame combined_;  // this rank's part, sent to all ranks
  std::vector<Transfer> combined_sent_;
  std::vector<bool> is_stored_;
  std::vector<std::span<const std::byte>> by_rank_;
  bool is_combined_ = false;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace nf
