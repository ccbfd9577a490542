// The last stage: the sum itself. Runs a rank's schedule tile by tile, so that encoding, sending
// and decoding overlap, and never waits.
//
// Messages between two ranks go in the order of the schedule, tile after tile. A rank keeps a few
// receives open for each peer, and a few sends; it starts a send as soon as its message is there,
// folds what has arrived in the order of the schedule, and decodes finished tiles when there is
// nothing else to do.
//
// Nobody can wait for ever in a circle: take the first message, in the order of all messages, that
// has not been delivered. All that it depends on comes before it, so its sender is ready to send
// it. All that its receiver holds back from the same sender comes before it too and waits only for
// messages before itself, which have been delivered: so the receiver has room for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/frame.h"
#include "collective/schedule.h"
#include "collective/stage.h"
#include "collective/tile_codec.h"

namespace nf {

class Executor final : public Stage {
 public:
  // All is borrowed until the stage is done. The schedule may be one half of an all-reduce: without
  // gather steps the owners' sums stay in their work values, without reduce steps the owners' work
  // values are what is gathered.
  Status start(Transport& transport, const Schedule& schedule, const TileCodec& codec,
               FrameKind kind);

  Expected<bool> advance() override;
  std::string waiting_for() const override;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // Of those: finished sums.
  std::uint64_t sum_bytes_sent() const { return sum_bytes_sent_; }

 private:
  using Tile = TileCodec::Tile;

  // One message to or from a peer.
  struct Message {
    const Step* step = nullptr;
    Tile tile;
    std::uint32_t order = 0;  // of a reduce-receive: how many of its tile come before it
    Frame* frame = nullptr;   // while it is under way
    Transfer transfer = {};
    bool is_settled = false;  // sent and released, or received and used
  };

  // The messages of one direction with one peer, in order. Those before `settled` are through,
  // those before `started` are with the transport.
  struct MessageQueue {
    std::vector<Message> messages;
    std::size_t settled = 0;
    std::size_t started = 0;
  };

  // A message that this rank has made or forwards.
  struct Outgoing {
    Frame* frame = nullptr;
    std::uint32_t users = 0;  // sends, and the decode, that still need the frame
    bool is_ready = false;    // nothing is to be added any more
  };

  struct TileState {
    std::uint32_t expected = 0;  // messages to fold
    std::uint32_t folded = 0;
    std::uint32_t contributions = 1;  // in work, or in the partial sum's frame
    Outgoing partial;                 // of the reduce stage
    Outgoing finished;                // of the gather stage
  };

  void plan();
  TileState& state(Tile tile) {
    return states_[std::size_t{tile.chunk} * tiles_per_chunk_ + tile.index];
  }
  bool is_owner(Tile tile) const { return schedule_->owners[tile.chunk] == schedule_->rank; }

  Status start_receives();
  // Each does one piece of work if there is one, and says whether there was.
  Expected<bool> start_one_send();
  Expected<bool> take_one();
  Expected<bool> decode_one();
  void settle_sends();

  Status fold(Message& message);
  Status fold_message(Message& message, Origin incoming, bool is_last);
  Status encode_own(Tile tile, Outgoing& out);
  Status accept(Message& message);
  Outgoing& outgoing(const Message& message);
  void publish(Outgoing& outgoing, Frame* frame, std::uint32_t users);
  void release(Outgoing& outgoing);

  Transport* transport_ = nullptr;
  const Schedule* schedule_ = nullptr;
  TileCodec codec_;
  FrameKind kind_;
  bool has_reduce_ = false;
  bool has_gather_ = false;
  std::uint32_t tiles_per_chunk_ = 1;
  std::vector<MessageQueue> sends_;          // by peer
  std::vector<MessageQueue> receives_;       // by peer
  std::vector<std::uint32_t> gather_sends_;  // by chunk
  std::vector<TileState> states_;
  std::vector<Tile> to_decode_;
  std::vector<float> scratch_;
  FramePool pool_;
  std::size_t unsettled_ = 0;  // messages
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t sum_bytes_sent_ = 0;
};

}  // namespace nf
