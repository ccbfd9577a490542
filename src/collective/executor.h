// The last stage: the sum itself. Runs a rank's schedule message by message, so that encoding,
// sending and decoding overlap, and never blocks. The messages of a chunk are the tiles of all
// parts of the exchange (collective/message_codec.h).
//
// Messages between two ranks are sent in the order of the schedule, and within a chunk in the order
// of its messages. A rank keeps a few receives and a few sends pending for each peer. It starts a
// send as soon as its message is ready, folds received messages in the order of the schedule, and
// decodes finished messages when there is nothing else to do.
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
#include "collective/message_codec.h"
#include "collective/schedule.h"
#include "collective/stage.h"

namespace nf {

class Executor final : public Stage {
 public:
  // Borrows all arguments until the stage is done. The schedule may be one half of an all-reduce:
  // without gather steps, the owners keep the sums; without reduce steps, the work values of the
  // owners are gathered. A kept sum is FP32, in the work values. If messages merge, it is decoded
  // from the merged message into the result. `max_bytes` is that of MessageCodec::assign().
  Status start(Transport& transport, const Schedule& schedule, std::span<const TileCodec> parts,
               std::size_t max_bytes, FrameKind kind);

  Expected<bool> advance() override;
  std::string waiting_for() const override;
  struct Sent {
    std::uint64_t bytes = 0;
    std::uint64_t sums = 0;  // part of the bytes: finished sums
  };
  // The bytes sent for one part. The header of a message counts for the first part in it.
  const Sent& sent(std::size_t part) const { return sent_[part]; }

 private:
  using Place = MessageCodec::Place;

  // One message to or from a peer.
  struct Message {
    const Step* step = nullptr;
    Place place;
    std::uint32_t order = 0;  // for a reduce-receive: its index among those for its place
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

  // The sum of one message of a chunk.
  struct SumState {
    std::uint32_t expected = 0;  // messages to fold
    std::uint32_t folded = 0;
    std::uint32_t contributions = 1;  // in work, or in the partial sum's frame
    Outgoing partial;                 // sent by reduce steps
    Outgoing finished;                // sent by gather steps
  };

  void plan();
  void list_peers();
  SumState& state(Place place) { return states_[first_state_[place.chunk] + place.index]; }
  bool is_owner(Place place) const { return schedule_->owners[place.chunk] == schedule_->rank; }
  // Whether the owners keep the sums.
  bool keeps_sums() const { return has_reduce_ && !has_gather_; }

  Status start_receives();
  // Each does one unit of work, if any is ready, and returns whether it did.
  Expected<bool> start_one_send();
  Expected<bool> process_one_receive();
  Expected<bool> decode_one();
  void settle_sends();

  Status fold(Message& message);
  Status encode_own(Place place, Outgoing& out);
  Status accept(Message& message);
  Outgoing& outgoing(const Message& message);
  void count_sent(const Message& message);
  void publish(Outgoing& outgoing, Frame* frame, std::uint32_t users);
  void release(Outgoing& outgoing);

  Transport* transport_ = nullptr;
  const Schedule* schedule_ = nullptr;
  MessageCodec codec_;
  FrameKind kind_;
  bool has_reduce_ = false;
  bool has_gather_ = false;
  std::vector<MessageQueue> sends_;        // by peer
  std::vector<MessageQueue> receives_;     // by peer
  std::vector<std::uint32_t> send_peers_;  // those with messages, in the order of their turns
  std::vector<std::uint32_t> receive_peers_;
  std::vector<std::uint32_t> gather_sends_;  // by chunk
  std::vector<SumState> states_;             // of all messages of all chunks
  std::vector<std::size_t> first_state_;     // by chunk
  std::vector<Place> to_decode_;
  FramePool pool_;
  std::size_t unsettled_ = 0;  // messages
  std::vector<Sent> sent_;     // by part
};

}  // namespace nf
