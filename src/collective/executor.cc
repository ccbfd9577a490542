#include "collective/executor.h"

#include <fmt/format.h>

#include <algorithm>

namespace nf {
namespace {

// Messages in flight between two ranks in one direction: one on the wire, one queued behind it, one
// being encoded.
constexpr std::size_t kWindow = 3;
// Frames that are allocated before the first message, at most; more are added on demand.
constexpr std::size_t kMaxInitialFrames = 64;

bool is_send(StepKind kind) {
  return kind == StepKind::kReduceSend || kind == StepKind::kGatherSend;
}
FramePlace place(TileCodec::Tile tile, bool reduces) {
  return {reduces ? FramePlace::Part::kReduce : FramePlace::Part::kGather, tile.chunk, tile.index};
}

bool is_reduce(StepKind kind) {
  return kind == StepKind::kReduceSend || kind == StepKind::kReduceReceive;
}

}  // namespace

Status Executor::start(Transport& transport, const Schedule& schedule, const TileCodec& codec,
                       FrameKind kind) {
  transport_ = &transport;
  schedule_ = &schedule;
  codec_ = codec;
  kind_ = kind;
  bytes_sent_ = 0;
  sum_bytes_sent_ = 0;
  plan();
  return {};
}

// Lists all messages and the number that each tile waits for. Reuses the memory of earlier calls.
void Executor::plan() {
  first_state_.clear();
  std::size_t tiles = 0;
  for (std::uint32_t chunk = 0; chunk < schedule_->chunks; ++chunk) {
    first_state_.push_back(tiles);
    tiles += codec_.plans->tiles(chunk);
  }
  states_.assign(tiles, {});
  gather_sends_.assign(schedule_->chunks, 0);
  to_decode_.clear();
  unsettled_ = 0;
  std::size_t largest = 0;
  has_reduce_ = false;
  has_gather_ = false;
  for (auto* queues : {&sends_, &receives_}) {
    queues->resize(schedule_->ranks);
    for (MessageQueue& queue : *queues) {
      queue.messages.clear();
      queue.settled = queue.started = 0;
    }
  }
  for (const Step& step : schedule_->steps) {
    (is_reduce(step.kind) ? has_reduce_ : has_gather_) = true;
    gather_sends_[step.chunk] += step.kind == StepKind::kGatherSend ? 1 : 0;
    MessageQueue& queue = (is_send(step.kind) ? sends_ : receives_)[step.peer];
    for (std::uint32_t index = 0; index < codec_.plans->tiles(step.chunk); ++index) {
      const Tile tile{step.chunk, index};
      if (codec_.is_empty(tile)) continue;
      Message message{.step = &step, .tile = tile};
      if (step.kind == StepKind::kReduceReceive) message.order = state(tile).expected++;
      queue.messages.push_back(message);
      ++unsettled_;
      largest = std::max(largest, codec_.message_size(tile, step.contributions));
    }
  }
  // Upper bound: one frame per message, and two per tile.
  pool_.reserve(std::min(unsettled_ + 2 * states_.size(), kMaxInitialFrames), largest);
  to_decode_.reserve(states_.size());
}

Expected<bool> Executor::advance() {
  for (;;) {
    NF_RETURN_IF_ERROR(transport_->progress());
    settle_sends();
    NF_RETURN_IF_ERROR(start_receives());
    bool has_worked = false;
    for (const auto work :
         {&Executor::start_one_send, &Executor::process_one_receive, &Executor::decode_one}) {
      const Expected<bool> worked = (this->*work)();
      if (!worked) return worked.status();
      if ((has_worked = *worked)) break;
    }
    if (!has_worked) return unsettled_ == 0;
  }
}

Status Executor::start_receives() {
  for (std::uint32_t peer = 0; peer < receives_.size(); ++peer) {
    MessageQueue& queue = receives_[peer];
    while (queue.started < queue.messages.size() && queue.started - queue.settled < kWindow) {
      Message& message = queue.messages[queue.started++];
      message.frame = pool_.acquire(codec_.message_size(message.tile, message.step->contributions));
      message.transfer = {.peer = peer, .bytes = message.frame->whole()};
      NF_RETURN_IF_ERROR(transport_->receive(message.transfer));
    }
  }
  return {};
}

Expected<bool> Executor::start_one_send() {
  for (std::uint32_t distance = 1; distance < sends_.size(); ++distance) {
    const std::uint32_t peer =
        (schedule_->rank + distance) % static_cast<std::uint32_t>(sends_.size());
    MessageQueue& queue = sends_[peer];
    if (queue.started == queue.messages.size() || queue.started - queue.settled >= kWindow)
      continue;
    Message& message = queue.messages[queue.started];
    Outgoing& ready = outgoing(message);
    if (!ready.is_ready) {
      // The message of another rank comes first, unless this rank sends only its own values.
      const bool is_leaf = is_reduce(message.step->kind) && state(message.tile).expected == 0;
      const bool is_source = !has_reduce_ && is_owner(message.tile);
      if (!is_leaf && !is_source) continue;
      NF_RETURN_IF_ERROR(encode_own(message.tile, ready));
    }
    message.frame = ready.frame;
    message.transfer = {.peer = peer, .bytes = message.frame->whole()};
    ++queue.started;
    bytes_sent_ += message.frame->whole().size();
    if (!is_reduce(message.step->kind)) sum_bytes_sent_ += message.frame->whole().size();
    NF_RETURN_IF_ERROR(transport_->send(message.transfer));
    return true;
  }
  return false;
}

void Executor::settle_sends() {
  for (MessageQueue& queue : sends_) {
    for (std::size_t i = queue.settled; i < queue.started; ++i) {
      Message& message = queue.messages[i];
      if (message.is_settled || !message.transfer.is_done) continue;
      message.is_settled = true;
      --unsettled_;
      release(outgoing(message));
    }
    while (queue.settled < queue.started && queue.messages[queue.settled].is_settled)
      ++queue.settled;
  }
}

Expected<bool> Executor::process_one_receive() {
  for (MessageQueue& queue : receives_) {
    for (std::size_t i = queue.settled; i < queue.started; ++i) {
      Message& message = queue.messages[i];
      if (message.is_settled || !message.transfer.is_done) continue;
      const bool is_fold = message.step->kind == StepKind::kReduceReceive;
      if (is_fold && message.order != state(message.tile).folded) continue;
      NF_RETURN_IF_ERROR(
          message.frame->open(kind_, place(message.tile, is_fold), message.transfer));
      NF_RETURN_IF_ERROR(is_fold ? fold(message) : accept(message));
      message.is_settled = true;
      --unsettled_;
      while (queue.settled < queue.started && queue.messages[queue.settled].is_settled)
        ++queue.settled;
      return true;
    }
  }
  return false;
}

// Encodes the rank's own values: the first message of a tile or, without reduce steps, the only
// one.
Status Executor::encode_own(Tile tile, Outgoing& out) {
  const std::uint32_t contributions = has_reduce_ ? 1 : schedule_->ranks;
  const Origin origin{schedule_->rank, contributions};
  Frame* frame = pool_.acquire(codec_.message_size(tile, contributions));
  NF_RETURN_IF_ERROR(codec_.encode(tile, origin, frame->payload()));
  if (codec_.keeps_residual) {
    NF_RETURN_IF_ERROR(codec_.keep_residual(tile, origin, frame->payload(), scratch_));
  }
  frame->seal(kind_, place(tile, has_reduce_));
  publish(out, frame, has_reduce_ ? 1 : gather_sends_[tile.chunk]);
  return {};
}

// Adds a message to this rank's partial sum of its tile.
Status Executor::fold(Message& message) {
  TileState& tile = state(message.tile);
  const Origin incoming{message.step->peer, message.step->contributions};
  const bool is_last = tile.folded + 1 == tile.expected;
  if (is_last || merges_messages(codec_.plans->kind())) {
    NF_RETURN_IF_ERROR(fold_message(message, incoming, is_last));
  } else {
    NF_RETURN_IF_ERROR(codec_.decode_add(message.tile, incoming, message.frame->payload()));
    tile.contributions += incoming.contributions;
  }
  ++tile.folded;
  pool_.release(message.frame);
  return {};
}

// Encodes the sum of this message and the rank's partial sum. If it is the last message of its
// tile, the result is ready to be sent.
Status Executor::fold_message(Message& message, Origin incoming, bool is_last) {
  TileState& tile = state(message.tile);
  const Origin total{schedule_->rank, tile.contributions + incoming.contributions};
  const bool merges = merges_messages(codec_.plans->kind());
  const bool ends_here = is_last && is_owner(message.tile) && !has_gather_;
  if (ends_here && !merges) {
    return codec_.decode_add(message.tile, incoming, message.frame->payload());
  }
  if (merges && codec_.keeps_residual && tile.partial.frame == nullptr) {
    NF_RETURN_IF_ERROR(encode_own(message.tile, tile.partial));
    tile.partial.is_ready = false;  // messages are still to be added
  }
  Frame* out = pool_.acquire(codec_.message_size(message.tile, total.contributions));
  if (Frame* held = tile.partial.frame; held != nullptr) {
    NF_RETURN_IF_ERROR(codec_.merge(message.tile, {schedule_->rank, tile.contributions},
                                    held->payload(), incoming, message.frame->payload(),
                                    schedule_->rank, out->payload()));
    tile.partial.frame = nullptr;
    pool_.release(held);
  } else if (codec_.keeps_residual) {
    NF_RETURN_IF_ERROR(codec_.decode_add(message.tile, incoming, message.frame->payload()));
    NF_RETURN_IF_ERROR(codec_.encode(message.tile, total, out->payload()));
    NF_RETURN_IF_ERROR(codec_.keep_residual(message.tile, total, out->payload(), scratch_));
  } else {
    NF_RETURN_IF_ERROR(codec_.decode_add_encode(message.tile, incoming, message.frame->payload(),
                                                total, out->payload()));
  }
  tile.contributions = total.contributions;
  if (!is_last) {
    tile.partial.frame = out;
    return {};
  }
  out->seal(kind_, place(message.tile, !is_owner(message.tile)));
  if (is_owner(message.tile)) {
    publish(tile.finished, out, gather_sends_[message.tile.chunk] + 1);
    to_decode_.push_back(message.tile);
  } else {
    publish(tile.partial, out, 1);
  }
  return {};
}

// Receives a finished tile; its bytes are forwarded unchanged.
Status Executor::accept(Message& message) {
  publish(state(message.tile).finished, message.frame, gather_sends_[message.tile.chunk] + 1);
  to_decode_.push_back(message.tile);
  return {};
}

Expected<bool> Executor::decode_one() {
  if (to_decode_.empty()) return false;
  const Tile tile = to_decode_.back();
  to_decode_.pop_back();
  const Origin origin{schedule_->owners[tile.chunk], schedule_->ranks};
  Outgoing& finished = state(tile).finished;
  NF_RETURN_IF_ERROR(codec_.decode(tile, origin, finished.frame->payload()));
  release(finished);
  return true;
}

Executor::Outgoing& Executor::outgoing(const Message& message) {
  TileState& tile = state(message.tile);
  return is_reduce(message.step->kind) ? tile.partial : tile.finished;
}

void Executor::publish(Outgoing& outgoing, Frame* frame, std::uint32_t users) {
  outgoing = {.frame = frame, .users = users, .is_ready = true};
}

void Executor::release(Outgoing& outgoing) {
  if (--outgoing.users == 0) pool_.release(outgoing.frame);
}

std::string Executor::waiting_for() const {
  const auto first_open = [](const std::vector<MessageQueue>& queues) -> const Message* {
    for (const MessageQueue& queue : queues) {
      for (std::size_t i = queue.settled; i < queue.started; ++i) {
        if (!queue.messages[i].transfer.is_done) return &queue.messages[i];
      }
    }
    return nullptr;
  };
  const auto describe = [](const Message& message, std::string_view verb) {
    return fmt::format("rank {} to {} tile {} of chunk {} ({}, round {})", message.step->peer, verb,
                       message.tile.index, message.tile.chunk,
                       is_reduce(message.step->kind) ? "reduce" : "gather", message.step->round);
  };
  if (const Message* message = first_open(receives_)) return describe(*message, "send");
  if (const Message* message = first_open(sends_)) return describe(*message, "receive");
  return "nothing";
}

}  // namespace nf
