// The last stage: the sum itself. Runs a rank's schedule tile by tile, so that encoding, sending
// and decoding overlap, and never blocks.
//
// Messages between two ranks are sent in the order of the schedule, tile after tile. A rank keeps a
// few receives and a few sends pending for each peer. It starts a send as soon as its message is
// ready, folds received messages in the order of the schedule, and decodes finished tiles when
// there is nothing else to do.
//
// This cannot deadlock. Take the first message, in the order of all messages, that has not been
// delivered. All messages that it depends on come before it, so its sender is ready to send it.
// All unfolded messages that its receiver holds from the same sender come before it too and wait
// only for earlier messages, which have been delivered: so the receiver has room for it.
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
  // Borrows all arguments until the stage is done. The schedule may be one half of an all-reduce:
  // without gather steps, the owners keep the sums; without reduce steps, the work values of the
  // owners are gathered. A kept sum is FP32, in the work values. If messages merge, it is decoded
  // from the merged message into the result.
  Status start(Transport& transport, const Schedule& schedule, const TileCodec& codec,
               FrameKind kind);

  Expected<bool> advance() override;
  std::string waiting_for() const override;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // The part of bytes_sent() that are finished sums.
  std::uint64_t sum_bytes_sent() const { return sum_bytes_sent_; }

 private:
  using Tile = TileCodec::Tile;

  // One message to or from a peer.
  struct Message {
    const Step* step = nullptr;
    Tile tile;
    std::uint32_t order = 0;  // for a reduce-receive: its index among those of its tile
    Frame* frame = nullptr;   // while it is in flight
    Transfer transfer = {};
    bool is_settled = false;  // sent and released, or received and processed
  };

  // The messages of one direction with one peer, in order. Those before `settled` are complete,
  // those before `started` have been given to the transport.
  struct MessageQueue {
    std::vector<Message> messages;
    std::size_t settled = 0;
    std::size_t started = 0;
  };

  // A message that this rank has encoded or forwards.
  struct Outgoing {
    Frame* frame = nullptr;
    std::uint32_t users = 0;  // sends, and the decode, that still need the frame
    bool is_ready = false;    // complete
  };

  struct TileState {
    std::uint32_t expected = 0;  // messages to fold
    std::uint32_t folded = 0;
    std::uint32_t contributions = 1;  // in work, or in the partial sum's frame
    Outgoing partial;                 // sent by reduce steps
    Outgoing finished;                // sent by gather steps
  };

  void plan();
  TileState& state(Tile tile) { return states_[first_state_[tile.chunk] + tile.index]; }
  bool is_owner(Tile tile) const { return schedule_->owners[tile.chunk] == schedule_->rank; }

  Status start_receives();
  // Each does one unit of work, if any is ready, and returns whether it did.
  Expected<bool> start_one_send();
  Expected<bool> process_one_receive();
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
  std::vector<MessageQueue> sends_;          // by peer
  std::vector<MessageQueue> receives_;       // by peer
  std::vector<std::uint32_t> gather_sends_;  // by chunk
  std::vector<TileState> states_;            // of all tiles
  std::vector<std::size_t> first_state_;     // by chunk
  std::vector<Tile> to_decode_;
  std::vector<float> scratch_;
  FramePool pool_;
  std::size_t unsettled_ = 0;  // messages
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t sum_bytes_sent_ = 0;
};

}  // namespace nf
